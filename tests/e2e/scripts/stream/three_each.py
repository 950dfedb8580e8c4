"""Writes three rows for each row, in eager TensorFlow 2."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from akdl.runner.config import StreamTaskConfig


def main(task_config: StreamTaskConfig) -> None:
    for records in task_config.dataset_fn().batch(1024):
        ids = tf.io.parse_example(records, {"id": tf.io.FixedLenFeature([], tf.int64)})[
            "id"
        ].numpy()
        copies = np.repeat(np.arange(3), len(ids))
        task_config.output_writer.write_batch({"worker": copies, "id": np.tile(ids, 3)})
