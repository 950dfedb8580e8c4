"""A script that parses rows one by one is told so, when it costs something."""

import pytest

from akdl.row_parsing import BUSY_S, MANY_ROWS, RowParsing
from akdl.wire import Example

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tf


@pytest.fixture
def parsing(monkeypatch):
    """Return a watch over this process's TensorFlow, which is put back at the end, and what it said."""
    for module in (tf, tf.io, tf.compat.v1, tf.compat.v1.io):
        for name in ("parse_single_example", "parse_single_sequence_example"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, getattr(module, name))
    said = []
    watched = RowParsing(said.append)
    watched.watch()
    return watched, said


def parsed(parse, batch):
    example = Example()
    example.features.feature["x"].int64_list.value.append(7)
    dataset = tf.data.Dataset.from_tensors(example.SerializeToString())
    dataset = dataset.batch(1) if batch else dataset
    (row,) = dataset.map(lambda record: parse(record, {"x": tf.io.FixedLenFeature([], tf.int64)}))
    assert int(tf.reshape(row["x"], [])) == 7


@pytest.mark.parametrize("module", [tf.io, tf.compat.v1], ids=["tf.io", "tf.compat.v1"])
def test_a_busy_script_is_told_once(parsing, module):
    watched, said = parsing
    parsed(module.parse_single_example, batch=False)
    for second in range(20):
        watched.look(MANY_ROWS, False, float(second))
    assert len(said) == 1 and "tf.io.parse_single_example" in said[0] and "dataset.batch(n)" in said[0]


def test_parsing_by_batches_is_not_told(parsing):
    watched, said = parsing
    parsed(tf.io.parse_example, batch=True)
    watched.look(MANY_ROWS, False, 0.0)
    watched.look(MANY_ROWS, False, BUSY_S)
    assert said == []


@pytest.mark.parametrize(("rows", "waits"), [(MANY_ROWS - 1, False), (MANY_ROWS, True)], ids=["few rows", "rows are slower"])
def test_a_script_that_loses_nothing_is_not_told(parsing, rows, waits):
    watched, said = parsing
    parsed(tf.io.parse_single_example, batch=False)
    watched.look(rows, waits, 0.0)
    watched.look(rows, waits, BUSY_S)
    assert said == []
