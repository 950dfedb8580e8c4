"""The MLP of the runner's documentation, on csv files with and without a header; batched by the
runner.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def awf_create_model_fn(name: str, input_size: int, layers: list[int]) -> Any:
    inputs = tf.keras.Input(shape=(input_size,), name="input")
    x = inputs
    for i, layer_size in enumerate(layers):
        x = tf.keras.layers.Dense(layer_size, activation="relu", name=f"layer_{i}")(x)
    outputs = tf.keras.layers.Dense(1, name="output", activation="sigmoid")(x)
    return tf.keras.Model(inputs=inputs, outputs=outputs, name=name)


def csv_lines(file: str, skip_head: bool) -> Any:
    return tf.data.TextLineDataset(file.strip()).skip(1 if skip_head else 0)


def csv_cells(line: Any, dim: int) -> Any:
    return tf.io.decode_csv(line, [[0.0]] * dim, field_delim=" ")


def awf_create_train_dataset_fn(file: str, skip_head: bool, dim: int) -> Any:
    def parse(line: Any) -> tuple[Any, Any]:
        parsed = csv_cells(line, dim)
        return tf.stack(parsed[1:dim]), tf.cast(parsed[:1] > tf.constant(0.0), tf.float32)

    return csv_lines(file, skip_head).map(parse)


def awf_create_val_dataset_fn(file: str, skip_head: bool, dim: int) -> Any:
    return awf_create_train_dataset_fn(file, skip_head, dim)


def awf_create_test_dataset_fn(file: str, skip_head: bool, dim: int) -> tuple[Any, Any]:
    def parse(line: Any, label_thresh: int) -> tuple[Any, Any, None]:
        parsed = csv_cells(line, dim)
        label = tf.expand_dims(parsed[0], -1)
        return parsed[1:dim], tf.cast(label > label_thresh, tf.int32), None

    return (
        csv_lines(file, skip_head).map(lambda line: parse(line, 0)),
        csv_lines(file, skip_head).map(lambda line: parse(line, 2)),
    )


def awf_create_predict_dataset_fn(file: str, skip_head: bool, dim: int) -> Any:
    return csv_lines(file, skip_head).map(
        lambda line: {"input": tf.stack(csv_cells(line, dim)[1:]), "line": line}
    )
