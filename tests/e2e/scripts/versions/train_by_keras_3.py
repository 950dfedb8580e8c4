"""A small network by Keras 3; writes down what the trained model says to each row."""

from __future__ import annotations

import json

import keras
import tensorflow as tf

from akdl.runner.config import TrainTaskConfig


def main(task_config: TrainTaskConfig) -> None:
    (rows,) = task_config.tf_context.batches(task_config.dataset_length)
    x = tf.stack([rows["x0"], rows["x1"]], axis=1)
    inputs = keras.Input((2,), name="x")
    hidden = keras.layers.Dense(8, "relu")(inputs)
    model = keras.Model(inputs, {"y": keras.layers.Dense(1)(hidden)})
    model.compile(keras.optimizers.SGD(0.3), "mse")
    model.fit(
        x, {"y": tf.cast(rows["label"], tf.float32)[:, None]}, batch_size=50, epochs=10, verbose=0
    )
    model.export(task_config.saved_model_dir, verbose=False)
    with open(task_config.user_params["told"], "w") as file:
        json.dump([tf.__version__, x.numpy().tolist(), model(x)["y"].numpy()[:, 0].tolist()], file)
