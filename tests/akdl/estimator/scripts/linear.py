"""y = 2 x + 1 by the four functions of an Estimator, with what `params` ask for to be wrong.

`params`: `rate`, `shuffled` for batches of 5 shuffled rows, `rows` and `eval_rows` (0 for empty
data), `keras` for its layers and optimizer, `fault` as below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow.compat.v1 as tf

calls = []


def dataset(rows: Any) -> Any:
    x = np.linspace(-1, 1, 20, dtype=np.float32)[:rows]
    return tf.data.Dataset.from_tensor_slices(({"x": x}, 2 * x + 1)).batch(20)


def train_input_fn(path: Any, params: Any) -> Any:
    calls.clear()
    rows = dataset(params.get("rows", 20))
    return (
        rows.unbatch().shuffle(20, seed=1).batch(5).repeat()
        if params.get("shuffled")
        else rows.repeat()
    )


def eval_input_fn(path: Any, params: Any) -> Any:
    return dataset(params.get("eval_rows", 20))


def model_fn(features: Any, labels: Any, mode: Any, params: Any) -> Any:
    fault = params.get("fault")
    if params.get("keras"):
        y = tf.keras.layers.Dense(1)(features["x"][:, None])[:, 0]
    else:
        zero = tf.zeros_initializer()
        y = features["x"] * tf.get_variable("weight", [], initializer=zero) + tf.get_variable(
            "bias", [], initializer=zero
        )
    if mode == tf.estimator.ModeKeys.PREDICT:
        if fault == "predict returns nothing":
            return None
        if fault == "variable in predict":
            y = y * tf.get_variable("scale", [])
        heads = {"serving_default": tf.estimator.export.PredictOutput({"y": y})}
        if fault == "classifies tensors":
            heads["serving_default"] = tf.estimator.export.ClassificationOutput(
                scores=tf.expand_dims(y, 1)
            )
        if fault == "classifies tensors, and predicts":
            heads["serving_default"] = tf.estimator.export.ClassificationOutput(
                scores=tf.expand_dims(y, 1)
            )
            heads["predict"] = tf.estimator.export.PredictOutput({"y": y})
        if fault == "regresses too":
            heads["second"] = tf.estimator.export.RegressionOutput(y)
        return tf.estimator.EstimatorSpec(mode, predictions={"y": y}, export_outputs=heads)
    loss = tf.losses.mean_squared_error(labels, y)
    if params.get("keras") and mode == tf.estimator.ModeKeys.TRAIN:
        optimizer = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers).SGD(0.1)
        optimizer.iterations = tf.train.get_global_step()
        (train_op,) = optimizer.get_updates(loss, tf.trainable_variables())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
    step = None if fault == "no global step" else tf.train.get_global_step()
    train_op = tf.train.GradientDescentOptimizer(params.get("rate", 0.1)).minimize(
        loss, global_step=step
    )
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def serving_input_receiver_fn() -> Any:
    calls.append("receive")
    x = tf.placeholder(tf.float32, [1], name="x")
    return tf.estimator.export.build_raw_serving_input_receiver_fn({"x": x})
