"""`flink_stream_dataset`: TensorFlow reads rows with its own reader while they arrive, and again from the file."""

import zlib

import pandas as pd
import pytest

from akdl.context import Share, TFContext
from akdl.dataset import Rows
from akdl.wire import Chunk, EndOfInput, TableColumn
from bridge.encoder import RowEncoder
from bridge.schema import Schema

pytestmark = pytest.mark.tf
SCHEMA = Schema.parse("id BIGINT NOT NULL, word STRING, score FLOAT, many ARRAY<BIGINT NOT NULL>")


def chunks(count, size):
    """Chunks of rows with wide and narrow ids, nulls and lists, as the encoder makes them."""
    encoder, checksum = RowEncoder(SCHEMA), 0
    for number in range(count):
        ids = range(number * size, (number + 1) * size)
        columns = [
            pd.Series(ids, dtype="i8"),
            pd.Series([None if i % 5 == 0 else f"word {i}" for i in ids], dtype=object),
            pd.Series([i / 2 for i in ids], dtype="f4"),
            pd.Series([list(range(i % 3)) for i in ids], dtype=object),
            pd.Series([1 if i % 7 == 0 else 0 for i in ids], dtype="i8"),
        ]
        ((_, rows, records),) = encoder.encode(columns).deal(1, 0)
        checksum = zlib.crc32(records, checksum)
        yield Chunk(rows=rows, records=records)
    yield Chunk(end=EndOfInput(rows=count * size, checksum=checksum))


@pytest.fixture
def context(tmp_path):
    columns = [TableColumn(name=column.name, type=column.type.sql) for column in SCHEMA]
    return TFContext(Rows(str(tmp_path), chunks(20, 100)), columns)


def test_batches_parse_to_what_was_encoded(context):
    ids, words, many = [], [], []
    for _ in range(2):  # the second time from the file
        for parsed in context.batches(64, defaults={"word": "-", "score": -1.0}):
            ids += parsed["id"].numpy().tolist()
            words += parsed["word"].numpy().tolist()
            many += parsed["many"].values.numpy().tolist()
    once = list(range(2000))
    assert ids == once * 2
    assert words == [b"-" if i % 5 == 0 else f"word {i}".encode() for i in once] * 2
    assert many == [value for i in once for value in range(i % 3)] * 2


def test_the_file_is_a_tfrecord_file_with_good_checksums(context):
    import tensorflow as tf

    examples = [tf.train.Example.FromString(s.numpy()) for s in tf.data.TFRecordDataset(context.rows.file())]
    assert len(examples) == context.rows.length() == 2000
    assert examples[300].features.feature["id"].int64_list.value[:] == [300]


def test_a_null_without_a_default_is_an_error_that_names_the_column(context):
    import tensorflow as tf

    with pytest.raises(tf.errors.InvalidArgumentError, match="Feature: (word|score)"):
        list(context.batches(64))


def test_graph_mode(context):
    import tensorflow as tf

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = context.flink_stream_dataset().batch(500)
        batch = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
        sizes = []
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                sizes.append(len(session.run(batch)))
    assert sizes == [500, 500, 500, 500]


@pytest.mark.parametrize("make", [lambda c: c.flink_stream_dataset(), lambda c: c.batches(64, {"word": "-", "score": -1.0})])
def test_no_strategy_shards_the_rows_again(context, make):
    import tensorflow as tf

    policy = make(context).options().experimental_distribute.auto_shard_policy
    assert policy == tf.data.experimental.AutoShardPolicy.OFF


def test_the_share_of_a_process_that_knows_of_no_others(context):
    assert context.shares() == [Share(context.rows.file(), 2000)]


def test_the_shares_of_a_group(context):
    shares = [Share("a", 1), Share("b", 2)]
    assert TFContext(context.rows, context.columns, shares=lambda: shares).shares() == shares
