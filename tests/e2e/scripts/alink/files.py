"""Reads what lies in the work folder as scripts of Alink do, and leaves a checkpoint beside the
model.
"""

from __future__ import annotations

import json
import os

import tensorflow as tf

from akdl.runner.config import TrainTaskConfig


def main(task_config: TrainTaskConfig) -> None:
    found = {}
    for name in ("tensor_shapes.txt", "tensor_types.txt"):
        with open(os.path.join(task_config.work_dir, name)) as file:
            found[name] = json.load(file)
    assert found == {"tensor_shapes.txt": {"t": [2]}, "tensor_types.txt": {"t": "double"}}, found
    with open(task_config.user_params["ALINK:bc_1"]) as file:
        assert file.read().splitlines() == ["0.1 a b"]
    with open(os.path.join(task_config.latest_ckpt_dir, "model.ckpt-1"), "w") as file:
        file.write("weights")
    model = tf.Module()
    serve = tf.function(lambda x: {"y": 2 * x}, [tf.TensorSpec([None], tf.float32, name="x")])
    tf.saved_model.save(
        model,
        os.path.join(task_config.saved_model_dir, "1"),
        {"predict": serve.get_concrete_function()},
    )
