"""Writes each row back, in eager TensorFlow 2."""

from __future__ import annotations

import tensorflow as tf

from akdl.runner.config import StreamTaskConfig


def main(task_config: StreamTaskConfig) -> None:
    worker = 0 if task_config.task_type == "chief" else task_config.task_index + 1
    size = task_config.user_params.get("batch_size", 64)
    for records in task_config.dataset_fn().batch(size):
        ids = tf.io.parse_example(records, {"id": tf.io.FixedLenFeature([], tf.int64)})[
            "id"
        ].numpy()
        task_config.output_writer.write_batch({"worker": [worker] * len(ids), "id": ids})
