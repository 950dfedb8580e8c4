"""What a script reports of its training, as gauges of its Flink task.

Flink asks a Python function for its gauges when a bundle of elements ends, so that they stand still while a script trains
and no row moves; the member's log is the place for live numbers. PyFlink's gauges are whole numbers: a metric is shown in
millionths, and one that is not finite as 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from akdl.wire import Report

if TYPE_CHECKING:
    from pyflink.metrics import MetricGroup

_LARGEST = 2**63 - 1


class ReportGauges:
    """Gauges `akdl.step` and, for each metric that is reported, `akdl.<metric>Millionths`.

    Args:
        group: The metric group of the task; None where `python.metric.enabled` is false, and nothing is shown.
    """

    def __init__(self, group: MetricGroup | None, latest: Callable[[], Report]) -> None:
        self._group = None if group is None else group.add_group("akdl")
        self._latest = latest
        self._known: set[str] = set()
        if self._group is not None:
            self._group.gauge("step", lambda: latest().step)

    def look(self) -> None:
        """Make the gauges of metrics that are new."""
        if self._group is None:
            return
        for name in self._latest().metrics:
            if name not in self._known:
                self._known.add(name)
                self._group.gauge(f"{name}Millionths", self._gauge_of(name))

    def _gauge_of(self, name: str) -> Callable[[], int]:
        return lambda: millionths(self._latest().metrics.get(name, 0.0))


def millionths(value: float) -> int:
    """Return a number in millionths, within the range of a gauge; 0 for one that is not finite."""
    if not abs(value) < float("inf"):
        return 0
    return max(-_LARGEST, min(_LARGEST, round(value * 1e6)))
