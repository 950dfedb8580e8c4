"""CommonEstimator with heads of TensorFlow, layers with state, and warm starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.akdl.estimator.custom import CLASSES, X, estimator, input_fn

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning"
    ),
]


def test_estimator_trains_with_a_head_of_tensorflow(tmp_path: Path) -> None:
    import tensorflow as tf

    made = estimator(tmp_path, tf.estimator.BinaryClassHead())
    made.train(input_fn(CLASSES), max_steps=300)
    assert made.evaluate(input_fn(CLASSES, 1))["auc"] > 0.98


def test_batch_normalization_and_losses_of_layers_take_part_in_training(tmp_path: Path) -> None:
    """The moving mean comes to that of the data, and the losses of layers count."""
    import tensorflow as tf

    def model() -> Any:
        return tf.keras.Sequential(
            [
                tf.keras.layers.DenseFeatures([tf.feature_column.numeric_column("x", [2])]),
                tf.keras.layers.BatchNormalization(momentum=0.9, name="norm"),
                tf.keras.layers.Dense(
                    1, kernel_regularizer=tf.keras.regularizers.l2(0.1), name="dense"
                ),
            ]
        )

    made = estimator(tmp_path, model=model)
    made.train(input_fn(CLASSES), max_steps=300)
    (mean,) = [name for name in made.get_variable_names() if name.endswith("norm/moving_mean")]
    np.testing.assert_allclose(made.get_variable_value(mean), X.mean(axis=0), atol=0.2)
    metrics = made.evaluate(input_fn(CLASSES, 1))
    squares = 0.1 * np.sum(
        made.get_variable_value(mean.replace("norm/moving_mean", "dense/kernel")) ** 2
    )
    assert metrics["regularization_loss"] == pytest.approx(squares, rel=1e-4)
    assert metrics["loss"] == pytest.approx(metrics["average_loss"] + squares, rel=1e-4)


@pytest.mark.long
def test_warm_start_takes_weights_and_counts_its_own_steps(tmp_path: Path) -> None:
    """It begins with the weights of another training, and counts its own steps."""
    estimator(tmp_path / "cold").train(input_fn(CLASSES), max_steps=300)
    cold = estimator(tmp_path / "cold").evaluate(input_fn(CLASSES, 1))
    import tensorflow as tf

    warm = estimator(
        tmp_path / "warm",
        optimizer=tf.keras.optimizers.SGD(1e-9),
        warm_start_from=str(tmp_path / "cold"),
    )
    warm.train(input_fn(CLASSES), max_steps=1)
    metrics = warm.evaluate(input_fn(CLASSES, 1))
    assert metrics["global_step"] == 1
    assert metrics["loss"] == pytest.approx(cold["loss"], rel=1e-4)


def test_models_that_cannot_be_cloned_are_refused(tmp_path: Path) -> None:
    import tensorflow as tf

    class Own(tf.keras.Model):  # type: ignore[misc]
        pass

    with pytest.raises(
        TypeError, match="Own needs get_config .* or pass a function that makes the model"
    ):
        estimator(tmp_path, model=Own())
    with pytest.raises(
        TypeError, match="model: expected a tf.keras.Model or a function that makes one, got a str"
    ):
        estimator(tmp_path, model="model")
