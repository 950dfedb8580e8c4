"""Script that learns from a stream and publishes a model at regular intervals of rows."""

import os

import tensorflow as tf

from akdl.serving.model_stream import publish


def main(task_config):
    params = task_config.user_params
    model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))])
    model.compile(optimizer=tf.keras.optimizers.SGD(0.05), loss="mse")
    learnt = tf.Variable(0, dtype=tf.int64, trainable=False)
    model.learnt = learnt  # saved with the model, and shown with each prediction

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32, name="x")])
    def serve(x):
        return {"y": model(x[:, None])[:, 0], "learnt": tf.fill(tf.shape(x), learnt)}

    export = os.path.join(task_config.work_dir, "export")
    for batch in task_config.tf_context.batches(20):
        if int(learnt) % params["publish_every"] == 0:
            tf.saved_model.save(model, export, signatures=serve)
            publish(export, params["models"])
            task_config.output_writer.write_batch({"published_after": [int(learnt)]})
        model.train_on_batch(batch["x"][:, None], batch["y"])
        learnt.assign_add(20)
