"""A linear model on the rows of a Flink table: columns `x0 FLOAT, x1 FLOAT, label BIGINT`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

SPEC = {name: tf.io.FixedLenFeature([1], tf.float32) for name in ("x0", "x1")}
LABEL = {"label": tf.io.FixedLenFeature([1], tf.int64)}


def awf_create_model_fn() -> Any:
    inputs = tf.keras.Input((2,), name="x")
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1, activation="sigmoid", name="p")(inputs))


def _features(parsed: Any) -> Any:
    return tf.concat([parsed["x0"], parsed["x1"]], 1)


def awf_create_train_dataset_fn(file: str, batch_size: int) -> Any:
    def parse(examples: Any) -> tuple[Any, Any]:
        parsed = tf.io.parse_example(examples, {**SPEC, **LABEL})
        return _features(parsed), parsed["label"]

    return tf.data.TFRecordDataset(file).batch(batch_size).map(parse)


def awf_create_test_dataset_fn(file: str, batch_size: int) -> dict[Any, Any]:
    return {"all": awf_create_train_dataset_fn(file, batch_size)}


def awf_create_predict_dataset_fn(file: str, batch_size: int) -> Any:
    def parse(examples: Any) -> dict[Any, Any]:
        parsed = tf.io.parse_example(examples, SPEC)
        return {"x": _features(parsed), "x0": parsed["x0"]}

    return tf.data.TFRecordDataset(file).batch(batch_size).map(parse)
