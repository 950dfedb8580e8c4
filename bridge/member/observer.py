"""Looks at a member twice a second, and says what it does: to the driver in this process, or in a file beside Flink's logs."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable

from akdl.wire import FAILED
from bridge.group.roles import label
from bridge.member.session import Session
from bridge.member.status import ENDED, EXPORTING, FEEDING, JOINING, STARTING, TRAINING, Clock, MemberStatus
from bridge.member.status_file import StatusFile
from bridge.settings import GroupSettings

_KEPT_LINES = 500
_KEPT_CHARACTERS = 64_000
_RESOURCES_S = 5.0  # processor time and memory are asked of the system, process by process


class Observer:
    """The status of one member.

    Args:
        resources: Returns processor seconds and bytes of memory of its process.
    """

    def __init__(
        self,
        settings: GroupSettings,
        group: str,
        index: int,
        session: Session,
        changed: threading.Condition,
        resources: Callable[[], tuple[float, int]],
    ) -> None:
        self._settings, self._group, self._index = settings, group, index
        self._session, self._changed, self._resources = session, changed, resources
        self._label = label(index, settings.num_workers)
        now = time.monotonic()
        self._clock = Clock(now)
        self._used: tuple[float, int] = (0.0, 0)
        self._resources_due = now
        self._lock = threading.Lock()
        self._printed = 0
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._file = StatusFile(f"{group}-{self._label.replace(' ', '-')}-{session.attempt}", now)
        self.rows = 0  # that have arrived for the member

    def note_line(self, line: str) -> None:
        """Keep a line that the process printed, for a driver elsewhere."""
        with self._lock:
            self._printed += 1
            self._lines.append(line)

    def look(self, is_over: bool = False) -> None:
        """Look at the member."""
        now = time.monotonic()
        with self._changed:
            session = self._session
            phase = ENDED if is_over else self._phase()
            script_waits = session.progress.waiting or not session.has_output_room
            flink_waits = session.is_input_full
        if phase == FEEDING or self._settings.kind == "stream":
            self._clock.look(now, phase, script_waits, flink_waits)
        else:
            self._clock.look(now, phase, False, False)
        if now >= self._resources_due and not is_over:
            self._resources_due = now + _RESOURCES_S
            self._used = self._resources()
        if is_over or self._file.is_due(now):
            self._write(now)

    @property
    def status(self) -> MemberStatus:
        """The member at the moment of the last look."""
        session, clock = self._session, self._clock
        with self._changed:
            report = session.progress.report
            counts = {"rows_read": session.progress.rows_read, "rows_out": session.rows_out}
            metrics = {name: value if abs(value) < float("inf") else None for name, value in sorted(report.metrics.items())}
            step, failed = report.step, session.status == FAILED or session.failure is not None
        with self._lock:
            lines, printed = tuple(self._lines), self._printed
        return MemberStatus(
            group=self._group,
            index=self._index,
            label=self._label,
            is_worker=self._index < self._settings.num_workers,
            attempt=session.attempt,
            phase=clock.phase,
            failed=failed,
            rows_in=self.rows,
            step=step,
            metrics=metrics,
            age_s=round(clock.age_s(), 2),
            script_waited_s=round(clock.script_waited_s, 2),
            flink_waited_s=round(clock.flink_waited_s, 2),
            phase_s={phase: round(seconds, 2) for phase, seconds in clock.phase_s.items()},
            cpu_s=round(self._used[0], 2),
            memory_bytes=self._used[1],
            lines_before=printed - len(lines),
            lines=lines,
            **counts,
        )

    def _phase(self) -> str:
        session = self._session
        if session.hello is None:
            return STARTING
        if session.cluster is None:
            return JOINING
        if session.outcome is not None:
            exports = session.outcome.HasField("success")
        else:
            exports = session.progress.exporting
        if exports:
            return EXPORTING
        return TRAINING if session.has_ended_input else FEEDING

    def _write(self, now: float) -> None:
        """Write the status with as many of the last lines as a driver is to fetch."""
        status = self.status
        left_out, size = len(status.lines), 0
        while left_out and size + len(status.lines[left_out - 1]) < _KEPT_CHARACTERS:
            left_out -= 1
            size += len(status.lines[left_out])
        kept = status.lines[left_out:]
        self._file.write(dataclasses.replace(status, lines=kept, lines_before=status.lines_before + left_out), now)
