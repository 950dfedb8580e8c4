"""What a script reports of its training, as lines of the log: one JSON object each, at most every few seconds."""

from __future__ import annotations

import json
from collections.abc import Callable

from akdl.wire import Report

EVERY_S = 5.0
PREFIX = "akdl-report "  # of the lines in the process's log file, so that a reader tells them from what the script prints


class ReportLog:
    """Writes the reports of one member."""

    def __init__(self, member: str, attempt: int, write: Callable[[str], None]) -> None:
        self._member = member
        self._attempt = attempt
        self._write = write
        self._due = 0.0
        self._written = 0

    def look(self, now: float, report: Report, is_last: bool = False) -> None:
        """Write the report when it is new and it is time."""
        if report.number <= self._written or not (is_last or now >= self._due):
            return
        self._written, self._due = report.number, now + EVERY_S
        self._write(PREFIX + as_json(self._member, self._attempt, report))


def as_json(member: str, attempt: int, report: Report) -> str:
    """Return a report as a JSON object: member, attempt, step, and metrics by name. NaN and infinity are null."""
    metrics = {name: value if abs(value) < float("inf") else None for name, value in sorted(report.metrics.items())}
    return json.dumps({"member": member, "attempt": attempt, "step": report.step, "metrics": metrics})
