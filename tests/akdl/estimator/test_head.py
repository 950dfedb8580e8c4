"""Heads: predictions, metrics, hooks, and an export that predicts the same."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.akdl.estimator.custom import (
    CLASSES,
    NUMBERS,
    X,
    estimator,
    input_fn,
    make_model,
    serialized,
)
from tests.akdl.estimator.support import signature
from tests.support.leftovers import DEADLINE_S
from tests.support.tensorflows import TF_1
from tests.support.tf_group import ROOT

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning"
    ),
]


def test_classification_head_has_the_metrics_of_numpy(tmp_path: Path) -> None:
    """Trained, evaluated, exported: the metrics are those that numpy computes from the
    predictions.
    """
    import tensorflow as tf

    made = estimator(tmp_path, params={})
    made.train(input_fn(CLASSES), max_steps=100)
    metrics = made.evaluate(input_fn(CLASSES, 1))
    predicted = {
        key: np.stack([row[key] for row in rows])
        for rows in [list(made.predict(input_fn(CLASSES, 1)))]
        for key in ("logits", "logistic", "probabilities", "class_ids")
    }
    z = predicted["logits"][:, 0].astype(np.float64)
    p = 1 / (1 + np.exp(-z))
    np.testing.assert_allclose(predicted["logistic"][:, 0], p, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        predicted["probabilities"], np.stack([1 - p, p], 1), rtol=1e-4, atol=1e-6
    )
    np.testing.assert_array_equal(predicted["class_ids"][:, 0], z > 0)
    assert metrics["global_step"] == 100
    loss = np.mean(np.logaddexp(0, np.where(CLASSES == 1, -z, z)))  # 1 - p may be 0 in float64
    assert (
        metrics["average_loss"]
        == pytest.approx(loss, rel=1e-3)
        == pytest.approx(metrics["loss"], rel=1e-3)
    )
    assert metrics["accuracy"] == pytest.approx(np.mean((z > 0) == CLASSES))
    assert metrics["label/mean"] == pytest.approx(CLASSES.mean())
    assert metrics["prediction/mean"] == pytest.approx(p.mean(), rel=1e-3)
    pairs = (z[CLASSES == 1][:, None] - z[CLASSES == 0][None]).ravel()
    assert metrics["auc"] == pytest.approx(np.mean((pairs > 0) + 0.5 * (pairs == 0)), abs=0.005)
    assert metrics["auc"] > 0.98 and metrics["average_loss"] < 0.2

    spec = {"x": tf.io.FixedLenFeature([2], tf.float32)}
    folder = made.export_saved_model(
        str(tmp_path), tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    )
    rows = tf.constant([serialized(x) for x in X[:7]])
    exported = folder.decode()
    served = signature(exported, "predict")(examples=rows)
    assert set(served) == set(predicted)
    for key, values in served.items():
        np.testing.assert_allclose(values, predicted[key][:7], rtol=1e-5)
    for key in ("serving_default", "classification"):
        scores = signature(exported, key)(inputs=rows)["scores"]
        np.testing.assert_allclose(scores, predicted["probabilities"][:7], rtol=1e-5)


def test_regression_head_has_the_metrics_of_numpy(tmp_path: Path) -> None:
    import tensorflow as tf

    made = estimator(tmp_path, "regression", make_model())
    made.train(input_fn(NUMBERS), max_steps=500)
    metrics = made.evaluate(input_fn(NUMBERS, 1))
    predicted = np.concatenate([row["predictions"] for row in made.predict(input_fn(NUMBERS, 1))])
    assert metrics["average_loss"] == pytest.approx(np.mean((predicted - NUMBERS) ** 2), rel=1e-3)
    assert metrics["average_loss"] < 0.01 and "auc" not in metrics
    spec = {"x": tf.io.FixedLenFeature([2], tf.float32)}
    folder = made.export_saved_model(
        str(tmp_path), tf.estimator.export.build_parsing_serving_input_receiver_fn(spec)
    )
    for key in ("serving_default", "regression"):
        served = signature(folder.decode(), key)(
            inputs=tf.constant([serialized(x) for x in X[:7]])
        )["outputs"]
        np.testing.assert_allclose(served.numpy()[:, 0], predicted[:7], rtol=1e-5)


def test_head_returns_the_chosen_keys_and_refuses_unknown_ones() -> None:
    import tensorflow as tf

    from akdl.estimator.head import PredictionKeys, UserDefineHead

    head = UserDefineHead("classification")
    assert list(head.predictions(tf.constant([[1.0]]), [PredictionKeys.LOGISTIC])) == ["logistic"]
    with pytest.raises(
        ValueError, match="keys: expected some of logits, .* for classification, got predictions"
    ):
        head.predictions(tf.constant([[1.0]]), [PredictionKeys.PREDICTIONS])
    with pytest.raises(
        ValueError, match="task_type: expected 'classification' or 'regression', got 'ranking'"
    ):
        UserDefineHead("ranking")


def test_hooks_and_scaffold_run_in_their_modes(tmp_path: Path) -> None:
    """Each is called in its mode, and the scaffold gives the first values."""
    import tensorflow.compat.v1 as tf

    from akdl.estimator.head import UserDefineHead

    called: list[str] = []

    class Hook(tf.train.SessionRunHook):  # type: ignore[misc]
        def __init__(self, name: str) -> None:
            self.name = name

        def begin(self) -> None:
            called.append(self.name)

    class FilledScaffold(tf.train.Scaffold):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(init_fn=lambda scaffold, session: called.append("init"))

    head = UserDefineHead(
        "classification",
        [Hook("train")],
        [Hook("chief")],
        [Hook("evaluate")],
        [Hook("predict")],
        FilledScaffold(),
    )
    made = estimator(tmp_path, head)
    made.train(input_fn(CLASSES), max_steps=1)
    assert sorted(called) == ["chief", "init", "train"]
    made.evaluate(input_fn(CLASSES, 1))
    next(made.predict(input_fn(CLASSES, 1)))
    assert called[3:] == ["evaluate", "predict"]


def test_head_accepts_a_train_op_of_the_user() -> None:
    import tensorflow.compat.v1 as tf

    from akdl.estimator.head import UserDefineHead

    head, mode = UserDefineHead("regression"), tf.estimator.ModeKeys.TRAIN
    with tf.Graph().as_default():
        weight = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        logits, labels = tf.fill([2, 1], 1.0) * weight, tf.constant([3.0, 5.0])
        step = tf.train.get_or_create_global_step()
        train = tf.train.GradientDescentOptimizer(0.25)
        spec = head.create_estimator_spec(
            {},
            mode,
            logits,
            labels,
            train_op_fn=lambda loss: train.minimize(loss, step),
            regularization_losses=[weight],
        )
        with pytest.raises(ValueError, match="pass either an optimizer or a train_op_fn"):
            head.create_estimator_spec({}, mode, logits, labels)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run(spec.loss) == pytest.approx((9 + 25) / 2)
            session.run(spec.train_op)
            assert session.run(weight) == pytest.approx(0.25 * (8 - 1)), (
                "the gradient is -2 * 4 + 1"
            )


TRAINS = """
import pathlib, sys
from tests.akdl.estimator.custom import CLASSES, estimator, input_fn
made = estimator(pathlib.Path(sys.argv[1]))
made.train(input_fn(CLASSES), max_steps=2)
print(made.evaluate(input_fn(CLASSES, 1))["global_step"])
"""


@pytest.mark.long
def test_head_trains_on_tensorflow_1(tmp_path: Path) -> None:
    done = subprocess.run(
        [TF_1.python(), "-c", TRAINS, tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
    )
    assert done.stdout == "2\n", done.stderr
