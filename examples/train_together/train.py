"""Script for logistic regression in Keras, with all workers in step."""

import tensorflow as tf

from akdl.engine.strategy import choose_strategy
from akdl.engine.train import train_keras_model

INPUT = {
    "example_config": [
        {"name": "x", "dtype": "float", "shape": [1]},
        {"name": "y", "dtype": "float", "shape": [1]},
        {"name": "above", "dtype": "int", "shape": [1]},
    ],
    "label_col": "above",
}


def main(task_config):
    strategy = choose_strategy(task_config)  # before anything else uses TensorFlow
    with strategy.scope():
        inputs = {name: tf.keras.Input([1], name=name) for name in ("x", "y")}
        probability = tf.keras.layers.Dense(1, "sigmoid", name="probability")(
            tf.keras.layers.Concatenate()(list(inputs.values()))
        )
        model = tf.keras.Model(inputs, {"probability": probability})
        model.compile(tf.keras.optimizers.SGD(2.0), "binary_crossentropy")
    train_keras_model(model, INPUT, {"batch_size": 50, "num_epochs": 20}, task_config)
