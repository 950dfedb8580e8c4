"""Script that keeps rows with a score above a threshold and adds a column, a batch at a time."""

import tensorflow as tf

from akdl.runner.config import BatchTaskConfig


def main(task_config: BatchTaskConfig):
    threshold = task_config.user_params["threshold"]
    for rows in task_config.tf_context.batches(1024, defaults={"name": ""}):
        large = rows["score"] > threshold
        print("kept", int(tf.reduce_sum(tf.cast(large, tf.int32))), "of", len(large))
        task_config.output_writer.write_batch(
            {
                "id": tf.boolean_mask(rows["id"], large).numpy(),
                "name": tf.boolean_mask(rows["name"], large).numpy(),
                "squared": tf.boolean_mask(rows["score"], large).numpy() ** 2,
            }
        )
