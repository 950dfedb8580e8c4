"""Script that learns from each click once; Flink's checkpoints have its model, and newer models are
published.
"""

import tensorflow as tf


def main(task_config):
    inputs = {name: tf.keras.Input((), name=name) for name in ("price", "age")}
    columns = [tf.keras.layers.Reshape((1,))(each) for each in inputs.values()]
    chance = tf.keras.layers.Dense(1, "sigmoid")(tf.keras.layers.Concatenate()(columns))
    model = tf.keras.Model(inputs, tf.keras.layers.Reshape(())(chance))
    model.compile(tf.keras.optimizers.SGD(4.0), "binary_crossentropy")
    task_config.checkpoint(model)
    for rows in task_config.tf_context.batches(50):
        seen = {name: rows[name] for name in inputs}
        loss = model.train_on_batch(seen, rows["clicked"])
        task_config.output_writer.write_batch({"loss": [loss]})
