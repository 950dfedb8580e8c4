"""Metrics of our Python functions. Flink asks for them only when a bundle ends.

PyFlink's gauges are integers, so metrics of a training are multiplied by a million.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from akdl.wire import Report

if TYPE_CHECKING:
    from pyflink.metrics import MetricGroup

_LARGEST = 2**63 - 1


class ReportGauges:
    """Gauges `akdl.step` and `akdl.<metric>Millionths of each reported metric."""

    def __init__(self, group: MetricGroup | None, latest: Callable[[], Report]) -> None:
        self._group = None if group is None else group.add_group("akdl")
        self._latest = latest
        self._known: set[str] = set()
        if self._group is not None:
            self._group.gauge("step", lambda: latest().step)

    def look(self) -> None:
        """Register gauges for new metrics, which a script names only when it reports them."""
        if self._group is None:
            return
        for name in self._latest().metrics:
            if name not in self._known:
                self._known.add(name)
                self._group.gauge(f"{name}Millionths", self._gauge_of(name))

    def _gauge_of(self, name: str) -> Callable[[], int]:
        return lambda: millionths(self._latest().metrics.get(name, 0.0))


def millionths(value: float) -> int:
    """A number in millionths, within the range of a gauge; 0 for one that is not finite."""
    if not abs(value) < float("inf"):
        return 0
    # A gauge is a long of Java, and a metric may be larger in millionths.
    return max(-_LARGEST, min(_LARGEST, round(value * 1e6)))


class PredictionMetrics:
    """Counters `akdl.inferences` and `akdl.failedRows`, distributions `akdl.batchRows` and
    `akdl.batchMillis`, gauges.

    The gauges are `akdl.loadMillis` and `akdl.modelVersion`, 1 for the first model and one more for
    each later one.
    """

    def __init__(self, group: MetricGroup | None, load_s: float) -> None:
        self._is_shown = group is not None
        self._version = 1
        if group is None:
            return
        own = group.add_group("akdl")
        self._inferences, self._failed = own.counter("inferences"), own.counter("failedRows")
        self._rows, self._millis = own.distribution("batchRows"), own.distribution("batchMillis")
        own.gauge("loadMillis", lambda: int(load_s * 1000))
        own.gauge("modelVersion", lambda: self._version)

    def add(self, rows: int, failed: int, seconds: float, newer_models: int = 0) -> None:
        """Count a batch; `seconds` is the time from the call of the model process to its answer."""
        if self._is_shown:
            self._inferences.inc(rows)
            self._failed.inc(failed)
            self._rows.update(rows)
            self._millis.update(int(seconds * 1000))
            self._version += newer_models
