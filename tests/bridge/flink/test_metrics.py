"""Metrics of trainings and of predictors."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pyflink.fn_execution.metrics.process.metric_impl import GenericMetricGroup

from akdl.wire import Prediction, Report
from bridge.flink.exchange import ReportGauges, millionths
from bridge.serving.prediction import PredictionMetrics


def test_a_gauge_per_metric_shows_its_latest_value() -> None:
    root = GenericMetricGroup(None, None)
    latest = Report()
    gauges = ReportGauges(root, lambda: latest)
    latest = Report(number=1, step=3, metrics={"loss": 0.25})
    gauges.look()
    found = root.add_group("akdl")._flink_gauge  # what PyFlink asks when a bundle ends
    assert {name: gauge() for name, gauge in found.items()} == {
        "step": 3,
        "lossMillionths": 250_000,
    }
    latest = Report(number=2, step=4, metrics={"loss": 0.125, "auc": 0.5})
    gauges.look()
    assert {name: gauge() for name, gauge in found.items()} == {
        "step": 4,
        "lossMillionths": 125_000,
        "aucMillionths": 500_000,
    }


def test_report_gauges_do_nothing_without_a_metric_group() -> None:
    ReportGauges(None, lambda: Report(number=1, metrics={"loss": 1.0})).look()


@pytest.mark.parametrize(
    ("value", "expected"), [(-1.5, -1_500_000), (math.nan, 0), (-math.inf, 0), (1e300, 2**63 - 1)]
)
def test_numbers_that_a_gauge_cannot_hold_are_clamped(value: float, expected: int) -> None:
    assert millionths(value) == expected


class _Number:
    def __init__(self) -> None:
        self.value = 0

    def inc(self, number: int) -> None:
        self.value += number

    def update(self, number: int) -> None:
        self.value = number


class _Group:
    """PyFlink's group as far as it is used; its counters count only inside a bundle."""

    def __init__(self, path: str = "", found: dict[str, Any] | None = None) -> None:
        self.path, self.found = path, {} if found is None else found

    def add_group(self, name: str, extra: str = "") -> _Group:
        return _Group(f"{self.path}{name}{'=' + extra if extra else ''} ", self.found)

    def counter(self, name: str) -> _Number:
        return self.found.setdefault(self.path + name, _Number())

    distribution = counter

    def gauge(self, name: str, value: Any) -> None:
        self.found[self.path + name] = value


def test_prediction_metrics_count_batches_rows_and_time() -> None:
    group = _Group()
    metrics = PredictionMetrics(group, 1.25)  # type: ignore[arg-type]
    metrics.add(100, 2, 0.05, Prediction(model=1, kind="SavedModel", device="CPU"))
    metrics.add(50, 0, 0.02, Prediction(model=2, kind="function"))
    numbers = {
        name: each.value if isinstance(each, _Number) else each()
        for name, each in group.found.items()
    }
    assert numbers == {
        "akdl inferences": 150, "akdl failedRows": 2, "akdl batchRows": 50, "akdl batchMillis": 20,
        "akdl loadMillis": 1250, "akdl modelVersion": 2,
        "akdl kind=SavedModel device=CPU inferences": 100, "akdl kind=function inferences": 50,
    }  # fmt: skip


def test_prediction_metrics_do_nothing_without_a_metric_group() -> None:
    PredictionMetrics(None, 1.0).add(1, 0, 0.1, Prediction())
