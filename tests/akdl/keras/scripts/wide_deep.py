"""A wide and deep model on the rows of a Flink table: columns `x ARRAY<FLOAT>` of 4 numbers, `label
FLOAT`.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

SPEC = {
    "x": tf.io.FixedLenFeature([4], tf.float32),
    "label": tf.io.FixedLenFeature([1], tf.float32),
}


class WideDeepModel(tf.keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.linear_model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        self.dnn_model = tf.keras.Sequential(
            [tf.keras.layers.Dense(5, "relu"), tf.keras.layers.Dense(1)]
        )

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        return tf.nn.sigmoid(self.linear_model(inputs) + self.dnn_model(inputs))


def awf_create_model_fn() -> WideDeepModel:
    return WideDeepModel()


def awf_create_train_dataset_fn(file: str, batch_size: int) -> Any:
    def parse(records: Any) -> tuple[Any, Any]:
        rows = tf.io.parse_example(records, SPEC)
        return rows["x"], rows["label"]

    return tf.data.TFRecordDataset(file).batch(batch_size).map(parse)


def awf_group_trainable_vars_fn(model: Any) -> tuple[Any, Any]:
    return model.linear_model.trainable_variables, model.dnn_model.trainable_variables
