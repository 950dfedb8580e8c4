"""What a task of a predictor does at a moment, told as members of a group tell it; see `bridge.member.status`."""

from __future__ import annotations

import time

from bridge.member import registry
from bridge.member.status import ENDED, FEEDING, STARTING, MemberStatus
from bridge.member.status_file import StatusFile

_TELL_S = 0.25


class TaskStatus:
    """The status of one task: the model loads (`STARTING`), then rows come and go (`FEEDING`)."""

    def __init__(self, group: str, index: int, attempt: int) -> None:
        self._began = time.monotonic()
        self._load_s: float | None = None
        self._rows, self._busy_s = 0, 0.0
        self._group, self._index, self._attempt = group, index, attempt
        self._file = StatusFile(f"{group}-task-{index}-{attempt}", self._began)
        self._tell(STARTING, self._began)

    def loaded(self) -> None:
        """Note that the model is there."""
        now = time.monotonic()
        self._load_s = now - self._began
        self._tell(FEEDING, now)

    def add(self, rows: int, seconds: float) -> None:
        """Note a batch.

        Args:
            seconds: From the call of the model process to its answer.
        """
        self._rows += rows
        self._busy_s += seconds
        now = time.monotonic()
        if now >= self._tell_due:
            self._tell(FEEDING, now)

    def end(self) -> None:
        """Note that the task has ended."""
        self._tell(ENDED, time.monotonic())

    def _tell(self, phase: str, now: float) -> None:
        self._tell_due = now + _TELL_S
        age_s = now - self._began
        load_s = age_s if self._load_s is None else self._load_s
        fed_s = max(age_s - load_s, 0.0)
        status = MemberStatus(
            group=self._group,
            index=self._index,
            label=f"task {self._index}",
            attempt=self._attempt,
            phase=phase,
            rows_in=self._rows,
            rows_read=self._rows,
            rows_out=self._rows,
            age_s=round(age_s, 2),
            script_waited_s=round(max(fed_s - self._busy_s, 0.0), 2),
            flink_waited_s=round(self._busy_s, 2),
            phase_s={STARTING: round(load_s, 2), **({FEEDING: round(fed_s, 2)} if self._load_s is not None else {})},
        )
        registry.note(status)
        if phase != FEEDING or self._file.is_due(now):
            self._file.write(status, now)
