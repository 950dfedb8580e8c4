"""The MLP on csv files, batched by its own functions: `batch_size` is passed by the runner."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from mlp import awf_create_model_fn, csv_cells, csv_lines  # noqa: F401


def awf_create_train_dataset_fn(file: str, skip_head: bool, dim: int, batch_size: int) -> Any:
    def parse(lines: Any) -> tuple[Any, Any]:
        parsed = csv_cells(lines, dim)
        label = tf.cast(tf.expand_dims(parsed[0], axis=1) > 0, tf.float32)
        return tf.stack(parsed[1:dim], axis=1), label

    return csv_lines(file, skip_head).batch(batch_size, False).map(parse)


def awf_create_val_dataset_fn(file: str, skip_head: bool, dim: int, batch_size: int) -> Any:
    return awf_create_train_dataset_fn(file, skip_head, dim, batch_size)
