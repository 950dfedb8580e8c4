"""`train_and_evaluate` of y = 2 x + 1 with a final and a latest exporter, in any role:
`with_exporters.py FOLDER MAX_STEPS`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

from akdl.engine.run_config import generate_run_config
from akdl.estimator.group import train_and_evaluate

folder, max_steps = sys.argv[1], int(sys.argv[2])


def input_fn() -> Any:
    x = np.linspace(-1, 1, 20, dtype=np.float32)
    return tf.data.Dataset.from_tensor_slices(({"x": x}, 2 * x + 1)).batch(20).repeat()


def model_fn(features: Any, labels: Any, mode: Any) -> Any:
    y = features["x"] * tf.get_variable("weight", []) + tf.get_variable("bias", [])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"y": y})
    loss = tf.losses.mean_squared_error(labels, y)
    train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def receiver_fn() -> Any:
    x = tf.placeholder(tf.float32, [None])
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})


config = generate_run_config(save_checkpoints_steps=20, keep_checkpoint_max=None, model_dir=folder)
found = train_and_evaluate(
    tf.estimator.Estimator(model_fn, config=config),
    tf.estimator.TrainSpec(input_fn, max_steps=max_steps),
    tf.estimator.EvalSpec(
        input_fn,
        steps=1,
        name="checks",
        exporters=[
            tf.estimator.FinalExporter("final", receiver_fn),
            tf.estimator.LatestExporter("latest", receiver_fn, exports_to_keep=2),
        ],
        start_delay_secs=0,
        throttle_secs=0,
    ),
)
print("returned", None if found is None else int(found["global_step"]))
