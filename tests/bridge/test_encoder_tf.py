"""TensorFlow reads what the encoder writes: its TFRecord reader, and its own parser of Examples."""

import numpy as np
import pandas as pd
import pytest

from akdl.packed import unpack
from bridge.encoder import RowEncoder
from bridge.schema import Schema

pytestmark = pytest.mark.tf


@pytest.fixture(scope="module", autouse=True)
def _tensorflow():
    """Load TensorFlow when a test here runs, not when tests are collected."""
    global tf
    tf = pytest.importorskip("tensorflow")


def objects(*cells):
    return pd.Series(cells, dtype=object)


def dataset(tmp_path, schema, *columns, workers=1, nulls=0):
    """Return a dataset of the file that holds the shares of all workers."""
    masks = pd.Series(np.broadcast_to(np.array(nulls, np.int64), len(columns[0])))
    shares = RowEncoder(Schema.parse(schema)).encode([*columns, masks]).deal(workers, 0)
    path = tmp_path / "rows.tfrecord"
    path.write_bytes(b"".join(unpack(data) for _, _, data in shares))
    return tf.data.TFRecordDataset(str(path))


def parse(records, features):
    """Parse all rows at once, which takes TensorFlow's fast parser."""
    serialized = next(iter(records.batch(2000)))
    return tf.io.parse_example(serialized, features)


def test_padded_varints(tmp_path):
    values = np.array([0, 1, 127, 128, 2**53 + 1, -1, -(2**63), 2**63 - 1])
    records = dataset(tmp_path, "x BIGINT NOT NULL, y INT NOT NULL", pd.Series(values), pd.Series(range(8), dtype="i4"))
    fixed = tf.io.FixedLenFeature([], tf.int64)
    parsed = parse(records, {"x": fixed, "y": fixed})
    assert parsed["x"].numpy().tolist() == values.tolist()
    assert parsed["y"].numpy().tolist() == list(range(8))
    singles = [tf.io.parse_single_example(record, {"x": fixed})["x"].numpy() for record in records]
    assert singles == values.tolist()


def test_nulls_take_the_default(tmp_path):
    records = dataset(
        tmp_path, "x BIGINT, y FLOAT, s STRING", pd.Series([300, 0, 1]), pd.Series([0.5, np.nan, 0], dtype="f4"),
        objects("é", None, "x" * 20_000), nulls=[0, 1, 2],
    )  # fmt: skip
    parsed = parse(
        records,
        {
            "x": tf.io.FixedLenFeature([], tf.int64, -7),
            "y": tf.io.FixedLenFeature([], tf.float32, -8.0),
            "s": tf.io.FixedLenFeature([], tf.string, b"none"),
        },
    )
    assert parsed["x"].numpy().tolist() == [300, -7, 1]
    assert parsed["y"].numpy().tolist()[::2] == [0.5, -8.0] and np.isnan(parsed["y"][1])
    assert parsed["s"].numpy().tolist() == ["é".encode(), b"none", b"x" * 20_000]


def test_arrays(tmp_path):
    records = dataset(
        tmp_path, "i ARRAY<BIGINT>, f ARRAY<FLOAT>, s ARRAY<STRING>",
        objects(np.array([1, -1, 2**53 + 1]), None, np.array([], "i8")),
        objects(np.array([0.5], "f4"), np.arange(100, dtype="f4"), None),
        objects(np.array(["a", ""], object), np.array([], object), np.array(["y" * 300], object)),
    )  # fmt: skip
    kinds = {"i": tf.int64, "f": tf.float32, "s": tf.string}
    parsed = parse(records, {name: tf.io.VarLenFeature(dtype) for name, dtype in kinds.items()})
    lists = {name: tf.RaggedTensor.from_sparse(values).to_list() for name, values in parsed.items()}
    # a sparse tensor forgets the empty rows at its end
    assert {name: rows + [[]] * (3 - len(rows)) for name, rows in lists.items()} == {
        "i": [[1, -1, 2**53 + 1], [], []],
        "f": [[0.5], list(range(100)), []],
        "s": [[b"a", b""], [], [b"y" * 300]],
    }


@pytest.mark.parametrize("schema", ["x BIGINT NOT NULL", "x BIGINT NOT NULL, s STRING NOT NULL"])
def test_the_reader_takes_the_frames_of_all_workers(tmp_path, schema):
    columns = [pd.Series(range(1001)), objects(*["s" * (i % 200) for i in range(1001)])][: schema.count(",") + 1]
    records = dataset(tmp_path, schema, *columns, workers=3)
    parsed = parse(records, {"x": tf.io.FixedLenFeature([], tf.int64)})
    assert parsed["x"].numpy().tolist() == [*range(0, 1001, 3), *range(1, 1001, 3), *range(2, 1001, 3)]
