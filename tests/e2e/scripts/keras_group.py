"""Logistic regression by Keras in a group; what `keras_allreduce.py` and `keras_ps.py` share. A
user file, no main script.
"""

from __future__ import annotations

import json
import os
from typing import Any

import tensorflow as tf

from akdl.engine.strategy import choose_strategy
from akdl.engine.train import train_keras_model

INPUT = {
    "example_config": [
        {"name": "x0", "dtype": "float", "shape": [1]},
        {"name": "x1", "dtype": "float", "shape": [1]},
        {"name": "label", "dtype": "int", "shape": [1]},
    ],
    "label_col": "label",
}


class SeenRows(tf.keras.metrics.Sum):
    """Counts the rows of an epoch, of all workers."""

    def __init__(self, name: str = "rows", **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        return super().update_state(tf.ones_like(y_true, tf.float32))


def train_and_report(task_config: Any) -> None:
    params = task_config.user_params
    strategy = choose_strategy(task_config)
    if "seed" in params:
        tf.keras.utils.set_random_seed(params["seed"])
    with strategy.scope():
        inputs = {name: tf.keras.Input([1], name=name) for name in ("x0", "x1")}
        joined = tf.keras.layers.Concatenate()([inputs["x0"], inputs["x1"]])
        model = tf.keras.Model(inputs, tf.keras.layers.Dense(1, name="logits")(joined))
        model.compile(
            tf.keras.optimizers.SGD(params.get("learningRate", 0.5)),
            tf.keras.losses.BinaryCrossentropy(from_logits=True),
            metrics=[SeenRows()],
        )
    train_config = {
        "batch_size": params.get("batchSize", 20),
        "num_epochs": params.get("numEpochs", 5),
        "steps_per_epoch": params.get("stepsPerEpoch"),
    }
    if "seed" in params:
        train_config["seed"] = params["seed"]
    export_dir = os.path.join(task_config.work_dir, "export")
    history = train_keras_model(
        model, INPUT, train_config, task_config, {"saved_model_dir": export_dir}
    ).history
    # of all workers together
    weights = [float(value) for array in model.get_weights() for value in array.ravel()]
    if task_config.task_type != "chief":
        return
    assert len(os.listdir(export_dir)) == 1
    row = tf.train.Example()
    row.features.feature["strategy"].bytes_list.value.append(type(strategy).__name__.encode())
    row.features.feature["loss"].float_list.value.append(history["loss"][-1])
    row.features.feature["rows"].float_list.value.append(history["rows"][-1])
    row.features.feature["weights"].bytes_list.value.append(json.dumps(weights).encode())
    task_config.output_writer.write(row)
