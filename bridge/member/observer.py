"""Observers of members and of a predictor's tasks: status, progress, and reports in the log.

Statuses are what `akdl top`, `akdl stacks` and the line of progress show. The registry's thread
takes them twice a second. In a local run the driver reads them in this process; a TaskManager
writes them to small files next to Flink's logs, which the driver reads through Flink's REST.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from akdl.wire import AWAITING, IMPORTING, READING, STILL
from akdl.wire.status_pb2 import MemberStatus
from bridge.member import registry
from bridge.member.session import Session, Stage
from bridge.member.status import (
    DATA,
    ENDED,
    EXPORT,
    FEEDING,
    PEERS,
    READ,
    START,
    STARTING,
    WORK,
    Clock,
    StatusFile,
)

if TYPE_CHECKING:
    # Model processes use `ProgressWatch`, and the module would load Apache Beam for them.
    from bridge.member.script_process import ScriptProcess

# A process that uses more than this share of one processor works or spins. A TensorFlow process
# that waits for others uses about a tenth of it.
BUSY = 0.05
# Between two looks at most these seconds count as without progress. Looks are a second apart, but
# the host may have been suspended for an hour.
MOST_IDLE_S = 5.0
REPORT_EVERY_S = 5.0
# The log file has the output of the script too, so reports need a mark.
REPORT_PREFIX = "akdl-step "
_KEPT_LINES = 500
_KEPT_CHARACTERS = 64_000
# To measure processor time and memory takes system calls for each child process.
_RESOURCES_S = 5.0
_TASK_WRITE_S = 0.25


class ProgressWatch:
    """Watch on the progress of a process: rows that it reads or writes, reports, and work.

    Use of the processor alone is not work, since a process that polls for another one uses it
    too. So the script's own processor time does not end a standstill; it only shows which member
    spins and which sleeps, over the whole time, so that a garbage collection changes nothing.
    """

    def __init__(self, now: float, cpu_s: float = 0.0) -> None:
        # Seconds without progress and without a wait for Flink, up to the last look.
        self.idle_s = 0.0
        # True if the process itself used the processor in this time.
        self.is_spinning = False
        self._looked = now
        self._cpu_s = cpu_s
        self._moved = 0
        self._worked_s = 0.0
        self._has_ended = False

    def look(
        self,
        now: float,
        moved: int,
        worked_s: float,
        cpu_s: float = 0.0,
        awaits_flink: bool = False,
    ) -> None:
        """Compare with the last look.

        Args:
            now: Monotonic seconds.
            moved: A number that grows with each row and each report.
            worked_s: Seconds of work that the process reports, and of its children's processors.
            cpu_s: Processor time of the process itself.
            awaits_flink: No progress is expected. Such a wait ends the time without progress, or
                a stream would fail when its rows continue after a long pause.
        """
        passed_s = now - self._looked
        if awaits_flink or moved != self._moved or worked_s - self._worked_s > BUSY * passed_s:
            self.idle_s = 0.0
            self._cpu_s = cpu_s
        else:
            self.idle_s += min(passed_s, MOST_IDLE_S)
        self._looked = now
        self._moved = moved
        self._worked_s = worked_s
        self.is_spinning = cpu_s - self._cpu_s > BUSY * self.idle_s

    def end(self) -> None:
        """Count the end of a script as progress, once: the others may go on because of it."""
        if not self._has_ended:
            self._has_ended = True
            self.idle_s = 0.0


class Observer:
    """Observer of one member, called by the Flink function and by the registry's thread.

    `note_line` is called by the thread that reads the output of the process. The status is kept
    in this process and in a file, next to Flink's logs or in the member's private folder.
    """

    def __init__(self, session: Session, process: ScriptProcess) -> None:
        self._session = session
        self._process = process
        self._settings = process.settings
        now = time.monotonic()
        self.progress = ProgressWatch(now)
        self._clock = Clock(now)
        self._used: tuple[float, int] = (0.0, 0)
        self._resources_due = now
        # The lines have a lock of their own, so the thread that reads the output does not wait for
        # the session.
        self._lock = threading.Lock()
        self._printed = 0
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._file = StatusFile(
            f"{process.group}-{process.label.replace(' ', '-')}-{session.attempt}",
            now,
            process.private_folder,
        )
        self._report_due = 0.0
        self._reported = 0

    def note_line(self, line: str) -> None:
        with self._lock:
            self._printed += 1
            self._lines.append(line)

    def look(self, is_over: bool = False) -> None:
        now = time.monotonic()
        with self._process.changed:
            stage = self._session.stage_reached
            use = self._use()
            place = self._session.progress.place
        # A member whose script has returned may wait for others, so it ends only when it is over.
        self._clock.look(
            now, ENDED if is_over else min(stage, Stage.EXPORTING).name.lower(), use, place
        )
        if now >= self._resources_due and not is_over:
            self._resources_due = now + _RESOURCES_S
            self._used = self._process.resources
        if is_over or self._file.is_due(now):
            self._write(now)

    def _use(self) -> str:
        """Return the use of the time now. With the lock held."""
        session = self._session
        progress = self._session.progress
        is_group = self._settings.size > 1
        if session.stage_reached < Stage.FEEDING:
            return START
        if session.outcome is not None and is_group:
            return PEERS
        if session.outcome is not None or progress.exporting:
            return EXPORT
        if not session.has_output_room:
            return DATA
        uses = {IMPORTING: START, READING: READ, AWAITING: DATA, STILL: PEERS if is_group else WORK}
        return uses.get(progress.activity, WORK)

    def log_report(self, is_last: bool = False) -> None:
        """Log the latest report of a training as JSON, every five seconds and at the end."""
        now = time.monotonic()
        report = self._session.progress.report
        if report.number <= self._reported or not (is_last or now >= self._report_due):
            return
        self._reported = report.number
        self._report_due = now + REPORT_EVERY_S
        entries = {
            "member": self._process.label,
            "attempt": self._session.attempt,
            "step": report.step,
            # JSON has neither NaN nor infinity.
            "metrics": {
                name: value if abs(value) < float("inf") else None
                for name, value in sorted(report.metrics.items())
            },
        }
        self._process.log(REPORT_PREFIX + json.dumps(entries))

    @property
    def status(self) -> MemberStatus:
        session = self._session
        clock = self._clock
        with self._process.changed, self._lock:
            report = session.progress.report
            return MemberStatus(
                **clock.entries(),
                group=self._process.group,
                index=self._process.index,
                label=self._process.label,
                is_worker=self._process.index < self._settings.num_workers,
                attempt=session.attempt,
                failed=session.stage == Stage.FAILED or session.failure is not None,
                rows_in=session.rows_arrived,
                rows_read=session.progress.rows_read,
                rows_out=session.rows_out,
                step=report.step,
                first_step=report.first_step,
                metrics=report.metrics,
                cpu_s=round(self._used[0], 2),
                memory_bytes=self._used[1],
                lines_before=self._printed - len(self._lines),
                lines=self._lines,
                operator=f"{self._settings.operator}, {self._settings.main_script}",
                waiting=session.awaits_rows,
                idle_s=round(self.progress.idle_s, 1),
                spinning=self.progress.is_spinning,
                calling=session.is_calling,
                stack=session.progress.stack,
                # A batch that fails reads all rows again, so only rows of a stream are done.
                rows_done=session.rows_done if self._settings.kind == "stream" else 0,
            )

    def _write(self, now: float) -> None:
        """Write the status with its latest lines only: the file is replaced every second."""
        status = self.status
        # The lines are added up from the newest one back, and the older ones are left out.
        left_out = len(status.lines)
        size = 0
        while left_out and size + len(status.lines[left_out - 1]) < _KEPT_CHARACTERS:
            left_out -= 1
            size += len(status.lines[left_out])
        del status.lines[:left_out]
        status.lines_before += left_out
        self._file.write(status, now)


class TaskObserver:
    """The status of one task of a predictor: it loads the model (`STARTING`), then passes rows on
    (`FEEDING`).
    """

    def __init__(self, group: str, index: int, attempt: int) -> None:
        now = time.monotonic()
        self._clock = Clock(now)
        self._rows = 0
        self._busy_s = 0.0
        self._counted_s = 0.0
        self._gpus = ""
        self._group = group
        self._index = index
        self._attempt = attempt
        self._file = StatusFile(f"{group}-task-{index}-{attempt}", now)
        self._write(STARTING)

    def loaded(self, gpus: str) -> None:
        self._gpus = gpus
        self._write(FEEDING)

    def add(self, rows: int, seconds: float) -> None:
        self._rows += rows
        self._busy_s += seconds
        if time.monotonic() >= self._write_due:
            self._write(FEEDING)

    def end(self) -> None:
        self._write(ENDED)

    def _write(self, phase: str) -> None:
        now = time.monotonic()
        clock = self._clock
        self._write_due = now + _TASK_WRITE_S
        before = clock.phase
        # The time since the last look belongs to the phase before.
        clock.look(now, phase, START if before == STARTING else DATA)
        # Requests are answered while the task waits for further rows, so their time moves from
        # waiting to work. It is bounded because requests are computed side by side.
        waited_s = clock.time_s.get(DATA, 0.0)
        worked_s = min(self._busy_s - self._counted_s, waited_s)
        self._counted_s += worked_s
        clock.time_s.update({DATA: waited_s - worked_s, WORK: self._counted_s})
        status = MemberStatus(
            **clock.entries(),
            group=self._group,
            index=self._index,
            label=f"task {self._index}",
            is_worker=True,
            attempt=self._attempt,
            gpus=self._gpus,
            rows_in=self._rows,
            rows_read=self._rows,
            rows_out=self._rows,
        )
        registry.note(status)
        if phase != before or self._file.is_due(now):
            self._file.write(status, now)
