"""Twice x plus one, in the style of TensorFlow 1."""

from __future__ import annotations

import tensorflow as tf

from akdl.runner.config import BatchTaskConfig


def main(task_config: BatchTaskConfig) -> None:
    rows = tf.compat.v1.data.make_one_shot_iterator(task_config.tf_context.batches(16)).get_next()
    cells = {"id": rows["id"], "y": 2 * rows["x"] + 1}
    with tf.compat.v1.Session() as session:
        while True:
            try:
                values = session.run(cells)
            except tf.errors.OutOfRangeError:
                return
            versions = [tf.__version__] * len(values["id"])
            task_config.output_writer.write_batch({**values, "version": versions})
