"""The RankNet of examples/keras_ranknet on the rows of a Flink table: pairs of documents.

Columns `id_1 STRING, x_1 ARRAY<FLOAT>` of 6 numbers, `grade_1 INT`, the same for document 2, `label
FLOAT`: 1 where document 1 is the better one, else 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from ranknet import awf_create_model_fn, awf_model_to_save_fn  # noqa: F401

SPEC = {"label": tf.io.FixedLenFeature([1], tf.float32)}
for number in "12":
    SPEC[f"id_{number}"] = tf.io.FixedLenFeature([1], tf.string)
    SPEC[f"x_{number}"] = tf.io.FixedLenFeature([6], tf.float32)
    SPEC[f"grade_{number}"] = tf.io.FixedLenFeature([1], tf.int64)


def _rows(file: str, batch_size: int) -> Any:
    return (
        tf.data.TFRecordDataset(file)
        .batch(batch_size)
        .map(lambda records: tf.io.parse_example(records, SPEC))
    )


def awf_create_train_dataset_fn(file: str, batch_size: int) -> Any:
    def pairs(rows: Any) -> tuple[tuple[Any, Any, Any, Any], Any, Any]:
        weight = tf.cast(tf.abs(rows["grade_1"] - rows["grade_2"]), tf.float32)
        return (rows["id_1"], rows["id_2"], rows["x_1"], rows["x_2"]), rows["label"], weight

    return _rows(file, batch_size).map(pairs)


def awf_create_val_dataset_fn(file: str, batch_size: int) -> tuple[Any, Any]:
    """Listened to or not, and liked or only listened to."""

    def labelled(above: int) -> Callable[..., tuple[tuple[Any, Any], Any]]:
        return lambda rows: (
            (rows["id_1"], rows["x_1"]),
            tf.cast(rows["grade_1"] > above, tf.int32),
        )

    rows = _rows(file, batch_size)
    heard = rows.unbatch().filter(lambda row: row["grade_1"][0] > 0).batch(batch_size)
    return rows.map(labelled(0)), heard.map(labelled(1))
