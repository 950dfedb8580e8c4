"""Train a model of 10 MB on the rows of a stream, and report their number and the seconds since the
first batch.
"""

import time

import tensorflow as tf


def main(task_config):
    """Keep the model in Flink's checkpoints, if the parameter `keeps` says so."""
    factors = tf.Variable(tf.random.stateless_normal([40_000, 64], (1, 2)))

    @tf.function
    def learn(ids, wanted):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.reduce_sum(tf.gather(factors, ids), 1) - wanted) ** 2)
        slices = tape.gradient(loss, factors)
        factors.scatter_sub(tf.IndexedSlices(0.01 * slices.values, slices.indices))

    if task_config.user_params["keeps"]:
        task_config.checkpoint(tf.train.Checkpoint(factors=factors))
    began, rows = None, 0
    for batch in task_config.tf_context.batches(1024):
        began = began or time.monotonic()
        learn(batch["id"], batch["y"])
        rows += len(batch["id"])
    task_config.output_writer.write_batch({"n": [rows], "seconds": [time.monotonic() - began]})
