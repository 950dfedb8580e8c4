"""A linear regression in the style of TensorFlow 1; writes down what the trained model says to each
row.
"""

from __future__ import annotations

import json

import tensorflow as tf

from akdl.runner.config import TrainTaskConfig


def main(task_config: TrainTaskConfig) -> None:
    inputs = tf.compat.v1.placeholder(tf.float32, [None, 2], "x")
    label = tf.compat.v1.placeholder(tf.float32, [None])
    kernel = tf.compat.v1.get_variable("kernel", [2, 1])
    bias = tf.compat.v1.get_variable("bias", [1])
    outputs = tf.squeeze(tf.matmul(inputs, kernel) + bias, axis=1, name="y")
    loss = tf.reduce_mean(tf.square(outputs - label))
    step = tf.compat.v1.train.GradientDescentOptimizer(0.3).minimize(loss)
    batches = tf.compat.v1.data.make_one_shot_iterator(
        task_config.tf_context.batches(task_config.dataset_length)
    )
    with tf.compat.v1.Session() as session:
        rows = session.run(batches.get_next())
        x = list(zip(rows["x0"].tolist(), rows["x1"].tolist()))
        session.run(tf.compat.v1.global_variables_initializer())
        for _ in range(50):
            session.run(step, {inputs: x, label: rows["label"]})
        tf.compat.v1.saved_model.simple_save(
            session, task_config.saved_model_dir, {"x": inputs}, {"y": outputs}
        )
        told = session.run(outputs, {inputs: x}).tolist()
    with open(task_config.user_params["told"], "w") as file:
        json.dump([tf.__version__, x, told], file)
