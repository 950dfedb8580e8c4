"""Hooks that end the training of an Estimator, and its evaluations on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl import testing
from tests.akdl.engine.linear import INPUT, TYPES, classifier

pytestmark = [
    pytest.mark.estimator,
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def tf() -> Any:
    import tensorflow

    return tensorflow


@pytest.fixture
def task_config(tmp_path: Path) -> Any:
    x = np.linspace(-1, 1, 200)
    return testing.train_task_config({"x": x, "label": x > 0}, TYPES, str(tmp_path))


def test_threshold_hooks_stop_training_once_the_metric_is_reached(
    tf: Any, task_config: Any
) -> None:
    from akdl.engine import early_stopping
    from akdl.engine.inputs import get_dataset_fn, parse_feature_specs

    estimator = classifier(tf, task_config)
    input_fn = get_dataset_fn(
        feature_specs=parse_feature_specs(INPUT["example_config"]),  # type: ignore[arg-type]
        raw_dataset_fn=lambda: tf.data.TFRecordDataset(task_config.dataset_file),
        label_col="label",
        batch_size=20,
        num_epochs=10,
    )
    calls = []
    always = early_stopping.make_early_stopping_hook(
        estimator,
        lambda: bool(calls.append(1)) or len(calls) > 2,
        run_every_secs=None,
        run_every_steps=5,
    )
    estimator.train(input_fn, hooks=[always])
    stopped = int(estimator.get_variable_value("global_step"))
    assert 10 <= stopped <= 20
    estimator.evaluate(input_fn, steps=2)
    hook = early_stopping.stop_if_higher_hook(
        estimator, "accuracy", 0.0, run_every_secs=None, run_every_steps=1
    )
    estimator.train(input_fn, hooks=[hook])
    assert int(estimator.get_variable_value("global_step")) <= stopped + 2
    make = early_stopping.stop_if_lower_hook
    estimator.train(
        input_fn, hooks=[make(estimator, "loss", -1.0, run_every_secs=None, run_every_steps=1)]
    )
    assert int(estimator.get_variable_value("global_step")) >= stopped + 100


def test_read_eval_metrics_is_empty_without_evaluations(tmp_path: Path) -> None:
    from akdl.engine.early_stopping import read_eval_metrics

    assert read_eval_metrics(str(tmp_path)) == {}
