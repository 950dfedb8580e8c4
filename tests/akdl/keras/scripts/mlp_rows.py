"""The MLP on the rows of a Flink table: columns `id BIGINT, x ARRAY<FLOAT>` of 6 numbers, `label
INT` from 0 to 3.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from mlp import awf_create_model_fn  # noqa: F401

SPEC = {
    "id": tf.io.FixedLenFeature([], tf.int64),
    "x": tf.io.FixedLenFeature([6], tf.float32),
    "label": tf.io.FixedLenFeature([1], tf.int64),
}


def _row(record: Any, threshold: float = 0) -> tuple[Any, Any]:
    row = tf.io.parse_single_example(record, SPEC)
    return row["x"], tf.cast(row["label"] > threshold, tf.float32)


def awf_create_train_dataset_fn(file: str) -> Any:
    return tf.data.TFRecordDataset(file).map(_row)


def awf_create_val_dataset_fn(file: str, batch_size: int) -> Any:
    def parse(records: Any) -> tuple[Any, Any]:
        rows = tf.io.parse_example(records, SPEC)
        return rows["x"], tf.cast(rows["label"] > 0, tf.float32)

    return tf.data.TFRecordDataset(file).batch(batch_size).map(parse)


def awf_create_test_dataset_fn(file: str) -> tuple[Any, ...]:
    return tuple(
        tf.data.TFRecordDataset(file).map(lambda record, t=t: _row(record, t)) for t in (0, 2)
    )


def awf_create_predict_dataset_fn(file: str) -> Any:
    def parse(record: Any) -> dict[Any, Any]:
        row = tf.io.parse_single_example(record, SPEC)
        return {"input": row["x"], "id": row["id"]}

    return tf.data.TFRecordDataset(file).map(parse)
