"""Writes back rows with even ids, in graph mode."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from akdl.runner.config import StreamTaskConfig

tf.compat.v1.disable_eager_execution()


def main(task_config: StreamTaskConfig) -> None:
    def even(records: Any) -> Any:
        ids = tf.io.parse_example(records, {"id": tf.io.FixedLenFeature([], tf.int64)})["id"]
        return tf.boolean_mask(ids, tf.equal(ids % 2, 0))

    batches = tf.compat.v1.data.make_one_shot_iterator(
        task_config.dataset_fn().batch(1024).map(even)
    ).get_next()
    with tf.compat.v1.Session() as session:
        while True:
            try:
                ids = session.run(batches)
            except tf.errors.OutOfRangeError:
                return
            task_config.output_writer.write_batch({"worker": [0] * len(ids), "id": ids})
