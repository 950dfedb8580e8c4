"""Batches cut from frames of one layout hold what a parser makes of the same rows, in order or shuffled."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import zlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from akdl import features, row_batches
from akdl.channel import ChannelError
from akdl.context import TFContext
from akdl.dataset import Alike, Rows
from akdl.stream_rows import StreamRows
from akdl.testing import table_columns
from akdl.wire import Chunk, EndOfInput
from bridge.encoder import RowEncoder
from bridge.schema import Schema
from tests.akdl.test_dataset import Feed

pytestmark = [pytest.mark.tf, pytest.mark.filterwarnings("ignore::DeprecationWarning")]
NUMBERS = Schema.parse(
    "yes BOOLEAN NOT NULL, tiny TINYINT NOT NULL, small SMALLINT NOT NULL, mid INT NOT NULL, id BIGINT NOT NULL, "
    "x FLOAT, y DOUBLE NOT NULL, day DATE, moment TIMESTAMP(6)"
)
NUMBER_TYPES = {column.name: column.type.sql for column in NUMBERS}
DEFAULTS = {"x": -1.5, "day": 7}
BATCHES = {"x": "FLOAT", "id": "BIGINT"}


def chunk(schema: Schema, cells: dict[str, Any], exact_doubles: bool = False, nulls: Any = 0) -> Chunk:
    """Return rows as the encoder makes them; `nulls` says which rows have null in the first column of plain type that may."""
    encoder = RowEncoder(schema, exact_doubles)
    given = [pd.Series(cells[column.name]) for column in schema]
    masks = [pd.Series(np.broadcast_to(np.array(nulls, np.int64), len(given[0])))] * (len(encoder.sql_arguments) - len(given))
    ((_, rows, records),) = encoder.encode([*given, *masks]).deal(1, 0)
    return Chunk(rows=rows, records=records)


def ended(chunks: list[Chunk]) -> list[Chunk]:
    checksum = 0
    for each in chunks:
        checksum = zlib.crc32(each.records, checksum)
    return [*chunks, Chunk(end=EndOfInput(rows=sum(each.rows for each in chunks), checksum=checksum))]


def numbers(first: int, count: int) -> dict[str, Any]:
    """Numbers of all widths and signs."""
    ids = np.arange(first, first + count)
    days = pd.Series(pd.to_datetime(ids % 1000 - 500, unit="D", origin="unix").date, dtype=object)
    return {
        "yes": ids % 2 == 0, "tiny": (ids % 256 - 128).astype("i1"), "small": (ids - 300).astype("i2"), "mid": (ids**2).astype("i4"),
        "id": (-1) ** ids * 3**ids.clip(0, 39), "x": (ids / 3).astype("f4"), "y": ids / 7, "day": days,
        "moment": pd.Series((ids * 10**9 - 5).astype("M8[us]")),
    }  # fmt: skip


def some_numbers(exact_doubles: bool) -> list[Chunk]:
    """Chunks of several layouts, and some with nulls among them."""
    made = []
    for number in range(6):
        cells, nulls = numbers(number * 50, 50), 0
        if number in (2, 3):
            nulls = (np.arange(50) % 3 == 0).astype(np.int64)
            cells["day"][::4] = None
        made.append(chunk(NUMBERS, cells, exact_doubles, nulls))
    return made


def plain(ids: Any) -> Chunk:
    schema = Schema.parse("x FLOAT NOT NULL, id BIGINT NOT NULL")
    return chunk(schema, {"x": np.array(ids, "f4") / 2, "id": np.array(ids, np.int64)})


def context_of(rows: Any, types: dict[str, str], exact_doubles: bool = False) -> TFContext:
    return TFContext(rows, table_columns(types), exact_doubles)


@pytest.fixture
def counted(tmp_path):
    """Rows with the ids 0 to 999, in ten chunks."""
    return context_of(Rows(str(tmp_path), ended([plain(range(n, n + 100)) for n in range(0, 1000, 100)])), BATCHES)


def ids_of(batches: Any) -> list[list[int]]:
    return [batch["id"].numpy().tolist() for batch in batches]


@pytest.mark.parametrize("kind", [Rows, StreamRows])
@pytest.mark.parametrize("exact_doubles", [False, True])
def test_all_kinds_of_numbers_are_as_parsed(tmp_path, exact_doubles, kind):
    import tensorflow as tf

    chunks = ended(some_numbers(exact_doubles))
    context = context_of(kind(str(tmp_path), chunks), NUMBER_TYPES, exact_doubles)
    assert context.is_numeric
    (tmp_path / "file").mkdir()
    file = Rows(str(tmp_path / "file"), chunks).file()
    parsed = list(features.batches(tf.data.TFRecordDataset(file), 64, context.columns, exact_doubles, DEFAULTS))
    found = list(context.batches(64, DEFAULTS))
    assert len(found) == len(parsed) == 5 and set(found[0]) == set(NUMBER_TYPES)
    for one, other in zip(found, parsed):
        for name in NUMBER_TYPES:
            assert one[name].dtype == other[name].dtype and one[name].numpy().tolist() == other[name].numpy().tolist(), name
    assert found[0]["id"].numpy()[:4].tolist() == [1, -3, 9, -27]
    assert found[0]["y"].dtype == (tf.float64 if exact_doubles else tf.float32)


def test_layouts_are_made_use_of(tmp_path):
    """Only chunks with nulls are parsed."""
    rows = Rows(str(tmp_path), ended(some_numbers(False)))
    rows.file()
    parts = list(rows.parts())
    assert sum(isinstance(part, str) for part in parts) == 1, "neighbours go together"
    assert sum(isinstance(part, Alike) for part in parts) >= 2
    assert sorted(os.listdir(tmp_path)) == ["dataset.tfrecords"]


def test_a_null_without_a_default_is_an_error_that_names_row_and_column(tmp_path):
    import tensorflow as tf

    context = context_of(Rows(str(tmp_path), ended(some_numbers(False))), NUMBER_TYPES)
    with pytest.raises(tf.errors.InvalidArgumentError, match="row 100 of .* column 'x' is null; give nulls a value"):
        list(context.batches(64, {"day": 0}))
    assert len(list(context.batches(64, columns=["id", "y"]))) == 5, "nulls in columns that are not read do not matter"


def test_some_columns(counted):
    (batch, *_) = counted.batches(300, columns=["id"])
    assert list(batch) == ["id"] and batch["id"].numpy().tolist() == list(range(300))
    with pytest.raises(ValueError, match="there is no column 'z'; the columns are 'x', 'id'"):
        counted.batches(300, columns=["z"])
    with pytest.raises(ValueError, match="defaults for unknown columns 'z'"):
        counted.batches(300, {"z": 1})


def test_epochs_have_no_break_between_batches(counted):
    found = ids_of(counted.batches(300, num_epochs=2))
    assert [len(ids) for ids in found] == [300] * 6 + [200]
    assert sum(found, []) == list(range(1000)) * 2
    endless = ids_of(counted.batches(300, num_epochs=None).take(8))
    assert sum(endless, []) == (list(range(1000)) * 3)[:2400]


def test_no_rows_and_no_end_of_epochs(tmp_path):
    assert list(context_of(Rows(str(tmp_path), ended([])), BATCHES).batches(10, shuffle_rows=5, num_epochs=None)) == []


@pytest.mark.parametrize("shuffle_rows", [2, 64, 5000])
def test_shuffled(counted, shuffle_rows):
    found = np.concatenate(ids_of(counted.batches(64, shuffle_rows=shuffle_rows, num_epochs=2)))
    first, second = found[:1000], found[1000:]
    for once in (first, second):
        assert sorted(once) == list(range(1000)) and once.tolist() != list(range(1000))
        # A row leaves the buffer after it has come, so it is never much earlier than in order.
        assert (once - np.arange(1000)).max() < shuffle_rows + 64
    assert first.tolist() != second.tolist()


def test_a_seed_makes_the_order_the_same_again(counted):
    import tensorflow as tf

    def order(seed: int) -> list[list[int]]:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            tf.compat.v1.set_random_seed(seed)
            batch = tf.compat.v1.data.make_one_shot_iterator(counted.batches(250, shuffle_rows=500)).get_next()["id"]
            return [session.run(batch).tolist() for _ in range(4)]

    first, again, other = order(1), order(1), order(2)
    assert first == again != other


def test_rows_with_nulls_in_the_graph_of_an_estimator(tmp_path):
    import tensorflow as tf

    context = context_of(Rows(str(tmp_path), ended(some_numbers(False))), NUMBER_TYPES)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batch = tf.compat.v1.data.make_one_shot_iterator(context.batches(300, DEFAULTS)).get_next()
        assert session.run(batch)["x"][100:104].tolist() == [-1.5, np.float32(101 / 3), 34.0, -1.5]


def test_without_eager_execution_rows_are_parsed():
    code = (
        "import tensorflow as tf; tf.compat.v1.disable_eager_execution()\n"
        "from akdl import row_batches; from akdl.wire import TableColumn\n"
        "assert not row_batches.are_possible([TableColumn(name='x', type='FLOAT')], False)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stderr=subprocess.DEVNULL)


def test_tables_with_other_columns_are_parsed(tmp_path):
    context = context_of(Rows(str(tmp_path), ended([])), {"x": "FLOAT", "word": "STRING"})
    assert not context.is_numeric
    assert not context_of(context.rows, {"many": "ARRAY<FLOAT>"}).is_numeric


def test_parsed_rows_may_be_shuffled_and_repeated_too(tmp_path):
    schema = Schema.parse("id BIGINT NOT NULL, word STRING")
    rows = chunk(schema, {"id": np.arange(100), "word": pd.Series([str(n) for n in range(100)], dtype=object)})
    context = context_of(Rows(str(tmp_path), ended([rows])), {"id": "BIGINT", "word": "STRING"})
    found = np.concatenate(ids_of(context.batches(30, columns=["id"], shuffle_rows=50, num_epochs=2)))
    assert sorted(found) == sorted([*range(100), *range(100)]) and found.tolist() != [*range(100), *range(100)]


@pytest.mark.parametrize(
    "make",
    [
        lambda context: context.batches(10),
        lambda context: features.batches(context.flink_stream_dataset(), 10, context.columns),
    ],
    ids=["cut", "parsed"],
)
def test_rows_of_a_stream_are_left_behind_chunk_by_chunk(tmp_path, make):
    """TensorFlow would read ahead by itself, and `commit` would speak of rows that the script has not got."""
    feed = Feed()
    rows = StreamRows(str(tmp_path), feed)
    try:
        batches = iter(make(context_of(rows, BATCHES)))
        feed.chunk(15, plain(range(15)).records)
        assert next(batches)["id"].numpy().tolist() == list(range(10))
        assert not threading.Event().wait(0.2) and (rows.taken, rows.passed) == (15, 0)
        feed.chunk(5, plain(range(15, 20)).records)
        assert next(batches)["id"].numpy().tolist() == list(range(10, 20))
        assert not threading.Event().wait(0.2) and (rows.taken, rows.passed) == (20, 15)
    finally:
        feed.end()  # or TensorFlow waits for ever, when it ends the iterator
    assert list(batches) == [] and rows.passed == 20


def test_rows_that_break_off_are_an_error(tmp_path):
    import tensorflow as tf

    feed = Feed()
    feed.chunk(5, plain(range(5)).records)
    feed.put(ChannelError("the line is down"))
    batches = iter(context_of(Rows(str(tmp_path), feed), BATCHES).batches(5))
    with pytest.raises(tf.errors.UnknownError, match="the line is down"):
        list(batches)


def tables(*sizes: int) -> list[Any]:
    total = itertools.accumulate(sizes)
    return [np.arange(end - size, end) for size, end in zip(sizes, total)]


@pytest.mark.parametrize("sizes", [(), (0, 0), (1,), (3, 3), (2, 0, 5), (20, 1, 1)])
def test_batched(sizes):
    found = list(row_batches.batched(tables(*sizes), 3))
    assert all(len(batch) == 3 for batch in found[:-1]) and all(0 < len(batch) <= 3 for batch in found)
    assert [row for batch in found for row in batch] == list(range(sum(sizes)))


@pytest.mark.parametrize("sizes", [(), (0,), (1,), (5, 5), (2, 30, 3)])
@pytest.mark.parametrize("buffer_rows", [1, 2, 7, 100])
def test_each_row_leaves_the_buffer_once(sizes, buffer_rows):
    found = [row for table in row_batches.shuffled(tables(*sizes), 4, buffer_rows, np.random.default_rng(0)) for row in table]
    assert sorted(found) == list(range(sum(sizes)))
