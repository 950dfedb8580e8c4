"""One process; `test_strategy.py` runs a group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from akdl import testing

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def trained(tmp_path: Path, steps: int, rate: Any = 0.1) -> Any:
    """Train one variable `w` from 0 towards 1, in step with nobody; return the Estimator."""
    import tensorflow as tf

    from akdl.engine.sync import sync_optimizer

    task_config = testing.batch_task_config([], {"x": "FLOAT"}, str(tmp_path))
    optimizer, hook = sync_optimizer(tf.compat.v1.train.GradientDescentOptimizer(rate), task_config)

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        loss = (
            tf.compat.v1.get_variable("w", [], initializer=tf.compat.v1.zeros_initializer()) - 1
        ) ** 2 / 2
        step = optimizer.minimize(loss, global_step=tf.compat.v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=step)

    estimator = tf.estimator.Estimator(model_fn, model_dir=str(tmp_path / "model_dir"))
    estimator.train(
        lambda: tf.data.Dataset.from_tensors(0.0).repeat(), hooks=[hook], max_steps=steps
    )
    return estimator


def test_one_worker_trains_as_plain_gradient_descent(tmp_path: Path) -> None:
    estimator = trained(tmp_path, steps=5)
    assert estimator.get_variable_value("global_step") == 5
    assert estimator.get_variable_value("w") == pytest.approx(1 - 0.9**5)


def test_an_error_while_a_step_is_made_ends_training(tmp_path: Path) -> None:
    import tensorflow as tf

    def rate() -> Any:
        early = tf.compat.v1.assert_less(
            tf.compat.v1.train.get_global_step(), tf.constant(3, tf.int64), message="too far"
        )
        with tf.control_dependencies([early]):
            return tf.constant(0.1)

    with pytest.raises(tf.errors.InvalidArgumentError, match="too far"):
        trained(tmp_path, steps=50, rate=rate)
