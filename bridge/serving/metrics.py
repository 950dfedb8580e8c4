"""Metrics of a predictor, as Flink shows them for its task.

Flink asks a Python function for its metrics when a bundle of elements ends, for a predictor at least every second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyflink.metrics import MetricGroup


class PredictionMetrics:
    """Counters `akdl.inferences` and `akdl.failedRows`, distributions `akdl.batchRows` and `akdl.batchMillis`, gauges.

    The gauges are `akdl.loadMillis`, the time to load the model, and `akdl.modelVersion`, 1 for the first model and one more
    for each later model, on the task that received the news. Without `python.metric.enabled` there is no metric group.
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
