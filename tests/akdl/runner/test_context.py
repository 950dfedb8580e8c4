"""`flink_stream_dataset`: TensorFlow reads rows with its own reader while they arrive, and again
from the file.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from akdl import features
from akdl.rows.file_rows import FileRows
from akdl.runner.context import Share, TFContext
from akdl.testing import table_columns
from akdl.wire import Chunk
from tests.support.random_rows import chunk_of, ended

pytestmark = [pytest.mark.tf, pytest.mark.estimator]
TYPES = {
    "id": "BIGINT NOT NULL",
    "word": "STRING",
    "score": "FLOAT",
    "many": "ARRAY<BIGINT NOT NULL>",
}


def chunks(count: int, size: int) -> list[Chunk]:
    """Chunks of rows with wide and narrow ids, nulls and lists."""
    found = []
    for number in range(count):
        ids = range(number * size, (number + 1) * size)
        cells = {
            "id": list(ids),
            "word": [None if i % 5 == 0 else f"word {i}".encode() for i in ids],
            "score": [None if i % 7 == 0 else i / 2 for i in ids],
            "many": [list(range(i % 3)) for i in ids],
        }
        found.append(chunk_of(cells, TYPES))
    return ended(found)


@pytest.fixture
def context(tmp_path: pathlib.Path) -> TFContext:
    columns = table_columns(TYPES)
    return TFContext(FileRows(str(tmp_path), chunks(20, 100), columns), columns)


def test_batches_are_what_was_sent(context: TFContext) -> None:
    ids, words, many = [], [], []
    defaults = {"word": "-", "score": -1.0}
    parsed_rows = features.batches(
        context.flink_stream_dataset(), 64, context.columns, defaults=defaults
    )
    for batches in (context.batches(64, defaults=defaults), parsed_rows):
        for parsed in batches:
            ids += parsed["id"].numpy().tolist()
            words += parsed["word"].numpy().tolist()
            many += parsed["many"].values.numpy().tolist()
    once = list(range(2000))
    assert ids == once * 2
    assert words == [b"-" if i % 5 == 0 else f"word {i}".encode() for i in once] * 2
    assert many == [value for i in once for value in range(i % 3)] * 2


def test_the_file_is_a_tfrecord_file_with_good_checksums(context: TFContext) -> None:
    import tensorflow as tf

    examples = [
        tf.train.Example.FromString(s.numpy()) for s in tf.data.TFRecordDataset(context.rows.file())
    ]
    assert len(examples) == context.rows.length() == 2000
    assert examples[300].features.feature["id"].int64_list.value[:] == [300]


def test_a_null_without_a_default_is_an_error_that_names_the_column(context: TFContext) -> None:
    import tensorflow as tf

    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="row 0 of .* column 'word': expected a value, got null",
    ):
        list(context.batches(64))


def test_dataset_works_in_graph_mode(context: TFContext) -> None:
    import tensorflow as tf

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        dataset = context.flink_stream_dataset().batch(500)
        batch = tf.compat.v1.data.make_one_shot_iterator(dataset).get_next()
        sizes = []
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                sizes.append(len(session.run(batch)))
    assert sizes == [500, 500, 500, 500]


@pytest.mark.parametrize(
    "make",
    [lambda c: c.flink_stream_dataset(), lambda c: c.batches(64, {"word": "-", "score": -1.0})],
)
def test_no_strategy_shards_the_rows_again(context: TFContext, make: Callable[..., Any]) -> None:
    import tensorflow as tf

    policy = make(context).options().experimental_distribute.auto_shard_policy
    assert policy == tf.data.experimental.AutoShardPolicy.OFF


def test_shares_of_a_process_alone_are_its_own_file(context: TFContext) -> None:
    assert context.shares() == [Share(context.rows.file(), 2000)]


def test_shares_of_a_group_are_those_of_the_bridge(context: TFContext) -> None:
    shares = [Share("a", 1), Share("b", 2)]
    assert TFContext(context.rows, context.columns, shares=lambda: shares).shares() == shares
