"""What `task_config.report` keeps."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl import testing
from akdl.runner.config import Reports


def test_the_last_value_of_each_metric_wins() -> None:
    reports = Reports()
    assert reports.latest().number == 0
    reports.add(1, {"loss": 0.5, "auc": 0.6})
    first = reports.latest()
    reports.add(2, {"loss": np.float32(0.25)})
    reports.add(None, {"rows": np.int64(7), "last": np.array(3)})
    latest = reports.latest()
    assert (latest.number, latest.first_step, latest.step) == (3, 1, 2)
    assert dict(latest.metrics) == {"loss": 0.25, "auc": 0.6, "rows": 7.0, "last": 3.0}
    assert first.metrics["loss"] == 0.5


def test_numbers_that_are_not_finite_are_reported() -> None:
    reports = Reports()
    reports.add(1, {"loss": math.nan})
    assert math.isnan(reports.latest().metrics["loss"])


@pytest.mark.parametrize("value", ["0.5", b"1", None, [0.5], np.zeros(2)])
def test_report_refuses_metrics_that_are_no_numbers(value: Any) -> None:
    reports = Reports()
    with pytest.raises(TypeError, match=r"report\(loss=\.\.\.\): expected a number, got "):
        reports.add(1, {"loss": value})
    assert reports.latest().number == 0


@pytest.mark.tf
def test_report_accepts_tensors(tmp_path: Path) -> None:
    import tensorflow as tf

    task_config = testing.train_task_config([], {"x": "FLOAT"}, str(tmp_path), attempt=2)
    task_config.report(tf.constant(4), loss=tf.constant(0.5))
    assert (task_config.reports.latest().step, task_config.reports.latest().metrics["loss"]) == (
        4,
        0.5,
    )
    assert (task_config.attempt, task_config.checkpoint_dir) == (2, None)
