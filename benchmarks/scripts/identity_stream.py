"""Writes the rows of a stream back as they come; the file of the user parameter `begun` says that
the first have come.
"""

import tensorflow as tf

SPEC = {"id": tf.io.FixedLenFeature([], tf.int64), "sent": tf.io.FixedLenFeature([], tf.int64)}


def main(task_config):
    for records in task_config.dataset_fn().batch(64):
        rows = tf.io.parse_example(records, SPEC)
        task_config.output_writer.write_batch({"id": rows["id"], "sent": rows["sent"]})
        open(task_config.user_params["begun"], "a").close()
