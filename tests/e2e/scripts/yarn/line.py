"""Fits y = 3 x by gradient descent with all workers in step, and exports the model."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from akdl.engine.strategy import choose_strategy


def main(task_config: Any) -> None:
    strategy = choose_strategy(task_config)
    x = tf.concat([rows["x"] for rows in task_config.tf_context.batches(100)], 0)
    with strategy.scope():
        weight = tf.Variable(0.0)

    def step_of_one() -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((weight * x - 3 * x) ** 2)
        gradient = tf.convert_to_tensor(tape.gradient(loss, weight))
        # the rows of all workers count
        gradient, rows = tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.SUM, [gradient, tf.cast(tf.size(x), tf.float32)]
        )
        weight.assign_sub(gradient / rows)
        return rows

    step = tf.function(lambda: strategy.run(step_of_one))
    for _ in range(30):
        (rows,) = strategy.experimental_local_results(step())
    print("trained with", int(rows), "rows of", strategy.num_replicas_in_sync, "workers")
    if task_config.task_type != "chief":
        return
    fitted = weight.numpy()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def serve(x: Any) -> Any:
        return {"y": x * fitted}

    tf.saved_model.save(tf.Module(), task_config.saved_model_dir, {"serving_default": serve})
