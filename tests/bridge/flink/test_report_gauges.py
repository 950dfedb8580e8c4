"""Reports of a training as gauges of PyFlink."""

from __future__ import annotations

import math

import pytest
from pyflink.fn_execution.metrics.process.metric_impl import GenericMetricGroup

from akdl.wire import Report
from bridge.flink.report_gauges import ReportGauges, millionths


def test_a_gauge_per_metric_shows_its_latest_value() -> None:
    root = GenericMetricGroup(None, None)
    latest = Report()
    gauges = ReportGauges(root, lambda: latest)
    latest = Report(number=1, step=3, metrics={"loss": 0.25})
    gauges.look()
    found = root.add_group("akdl")._flink_gauge  # what PyFlink asks when a bundle ends
    assert {name: gauge() for name, gauge in found.items()} == {"step": 3, "lossMillionths": 250_000}
    latest = Report(number=2, step=4, metrics={"loss": 0.125, "auc": 0.5})
    gauges.look()
    assert {name: gauge() for name, gauge in found.items()} == {"step": 4, "lossMillionths": 125_000, "aucMillionths": 500_000}


def test_without_metrics_nothing_is_shown() -> None:
    ReportGauges(None, lambda: Report(number=1, metrics={"loss": 1.0})).look()


@pytest.mark.parametrize(("value", "expected"), [(-1.5, -1_500_000), (math.nan, 0), (-math.inf, 0), (1e300, 2**63 - 1)])
def test_what_a_gauge_cannot_hold(value: float, expected: int) -> None:
    assert millionths(value) == expected
