"""Gauges of a Flink task with what its script reports of the training.

Flink asks a Python function for its gauges when a bundle of elements ends, so they do not change while a script trains and no
row moves; live numbers are in the member's log. PyFlink's gauges are integers: metrics are shown in millionths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from akdl.wire import Report

if TYPE_CHECKING:
    from pyflink.metrics import MetricGroup

_LARGEST = 2**63 - 1


class ReportGauges:
    """Gauges `akdl.step` and `akdl.<metric>Millionths`; `group` is None where `python.metric.enabled` is false."""

    def __init__(self, group: MetricGroup | None, latest: Callable[[], Report]) -> None:
        self._group = None if group is None else group.add_group("akdl")
        self._latest = latest
        self._known: set[str] = set()
        if self._group is not None:
            self._group.gauge("step", lambda: latest().step)

    def look(self) -> None:
        """Register the gauges of new metrics."""
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
    return max(-_LARGEST, min(_LARGEST, round(value * 1e6)))
