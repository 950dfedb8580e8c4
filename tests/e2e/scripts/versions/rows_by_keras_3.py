"""Twice x plus one, by a model of Keras 3."""

from __future__ import annotations

import keras
import tensorflow as tf

from akdl.runner.config import BatchTaskConfig


def main(task_config: BatchTaskConfig) -> None:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Rescaling(2.0, 1.0)])
    for rows in task_config.tf_context.batches(16):
        y = model(rows["x"][:, None])[:, 0]
        task_config.output_writer.write_batch(
            {"id": rows["id"], "y": y, "version": [tf.__version__] * len(y)}
        )
