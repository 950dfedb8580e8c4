"""Learn y = 3 x - 2 from a stream, as a model of Keras in Flink's checkpoints."""

import tensorflow as tf


def main(task_config):
    """Train on batches of 200 rows."""
    model = tf.keras.Sequential(
        [tf.keras.layers.Input((1,), name="x"), tf.keras.layers.Dense(1, name="y")]
    )
    model.compile(tf.keras.optimizers.SGD(0.1), "mse")
    task_config.checkpoint(model)
    for batch in task_config.tf_context.batches(200):
        model.train_on_batch(batch["x"][:, None], batch["y"])
