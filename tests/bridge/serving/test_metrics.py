"""Metrics of a predictor."""

from __future__ import annotations

from typing import Any

from bridge.serving.metrics import PredictionMetrics


class _Number:
    def __init__(self) -> None:
        self.value = 0

    def inc(self, number: int) -> None:
        self.value += number

    def update(self, number: int) -> None:
        self.value = number


class _Group(dict[str, Any]):
    """PyFlink's group as far as it is used; its counters count only inside a bundle."""

    def add_group(self, name: str) -> _Group:
        assert name == "akdl"
        return self

    def counter(self, name: str) -> _Number:
        return self.setdefault(name, _Number())

    distribution = counter

    def gauge(self, name: str, value: Any) -> None:
        self[name] = value


def test_batches_are_counted() -> None:
    group = _Group()
    metrics = PredictionMetrics(group, 1.25)  # type: ignore[arg-type]
    metrics.add(100, 2, 0.05)
    metrics.add(50, 0, 0.02, newer_models=1)
    numbers = {name: each.value if isinstance(each, _Number) else each() for name, each in group.items()}
    assert numbers == {
        "inferences": 150, "failedRows": 2, "batchRows": 50, "batchMillis": 20, "loadMillis": 1250, "modelVersion": 2,
    }  # fmt: skip


def test_without_metrics_nothing_is_counted() -> None:
    PredictionMetrics(None, 1.0).add(1, 0, 0.1)
