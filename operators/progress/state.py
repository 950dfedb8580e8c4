"""Statuses of members as one line for each operator. Pure.

A line shows the phase of the last worker and the step of the first: the last one decides when the
operator ends, and the first one has the newest metrics.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection
from typing import NamedTuple

from akdl.wire.status_pb2 import MemberStatus
from bridge.member.status import DATA, ENDED, FEEDING, PHASES, READ, START, STARTING, TRAINING, WORK
from operators.progress.time_split import TimeSplit, added, described

# This phase is shown before any member has started.
WAITING = "waiting"
# A script reports the number of steps that it will make as a metric of this name.
TOTAL_STEPS = "total_steps"
# Speeds are measured over this window, because rows arrive in chunks and a shorter one would make
# the numbers jump.
_WINDOW_S = 5.0
# A job that is older than its display by more than this many seconds was running before.
_LATE_S = 1.0
# A side that works for this share of the time limits the job, and a side that waits for it does
# not.
_BUSY = 0.5
# A line has room for a few metrics, so the first ones in alphabetical order are shown.
_MOST_METRICS = 4


class Shown(NamedTuple):
    """Operator whose progress is shown; `trains` if it makes a model, `predicts` if its tasks count
    as workers.
    """

    name: str
    size: int = 1
    trains: bool = False
    visible: bool = True
    log_dir: str | None = None
    predicts: bool = False
    start_timeout_s: float = 300.0


class Line(NamedTuple):
    """Progress of an operator at a moment; an idle line says nothing but that time passes."""

    name: str
    text: str
    done: float | None = None
    is_idle: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


class OperatorState:
    """State of one operator, from the statuses of its members.

    It lives as long as the display of a job, also through restarts, and is used by the display's
    thread alone.
    """

    def __init__(self, shown: Shown, now: float) -> None:
        self._shown = shown
        self._began = self._looked = now
        # This is shown before any member has started.
        self.waits = "Flink starts"
        self._phase = WAITING
        self._members: dict[int, MemberStatus] = {}
        self._attempt = 0
        self._splits: dict[int, TimeSplit] = {}
        self._seen: deque[tuple[float, int, int, int, int]] = deque()

    @property
    def members(self) -> list[MemberStatus]:
        """The last status of each member, with the time of all its attempts."""
        found = []
        for index, member in sorted(self._members.items()):
            status = MemberStatus()
            status.CopyFrom(member)
            status.time_s.clear()
            status.time_s.update(
                {use: round(seconds, 2) for use, seconds in self._splits[index].time_s.items()}
            )
            found.append(status)
        return found

    def look(self, now: float, statuses: Collection[MemberStatus] | None) -> None:
        """Take the statuses of all members that there are; None if they cannot be read now.

        After None the known members stay, so that an unreachable cluster does not look like an
        operator whose members have ended.
        """
        self._looked = now
        oldest_s = max((each.age_s for each in statuses or ()), default=0.0)
        # The display may begin while the job has been running, as of a job that plain PyFlink has
        # started.
        if not self._splits and oldest_s > now - self._began + _LATE_S:
            self._began = now - oldest_s
        if statuses is not None:
            self._attempt = max([self._attempt, *(each.attempt for each in statuses)])
            ordered = sorted(statuses, key=lambda each: each.attempt)
            # A restart restarts the whole group, while tasks of a predictor may restart alone.
            current = [
                each for each in ordered if self._shown.predicts or each.attempt == self._attempt
            ]
            self._members = {each.index: each for each in current}
        for index, status in self._members.items():
            group = [each for each in self._members.values() if each.attempt == status.attempt]
            first = min((each.first_step for each in group if each.first_step), default=0)
            last = max(each.step for each in group)
            self._splits.setdefault(index, TimeSplit(self._began)).look(now, status, first, last)
        self._phase = self._found_phase()
        rows_in, rows_read, rows_out = self._rows()
        self._seen.append((now, rows_in, rows_read, rows_out, self._step()))
        # The oldest sample that is kept lies just outside of the window, so the speed covers at
        # least the whole window.
        while len(self._seen) > 2 and self._seen[1][0] < now - _WINDOW_S:
            self._seen.popleft()

    def line(self) -> Line:
        """Line for now, as long as the operator runs."""
        rows_in, rows_read, rows_out = self._rows()
        parts = [self._phase_text()]
        if rows_in or rows_out:
            parts.append(f"{rows_in:,} rows in, {rows_out:,} out")
        # Rows out show what the operator achieves. Without any, as in a training, rows are counted
        # as they come in, and later as the script reads them.
        speed = self._speed(3) or (self._speed(1) if self._phase == FEEDING else self._speed(2))
        if speed >= 1:
            parts.append(f"{speed:,.0f} rows/s")
        parts += self._reported()
        done, left_s = self._left(rows_in, rows_read)
        if left_s is not None:
            parts.append(f"{_duration(left_s)} left")
        parts += self._waits()
        return Line(self._shown.name, ", ".join(parts), done, self._phase == WAITING)

    def last_line(self, failed: bool = False) -> Line:
        """Line that stays: rows, duration and the use of the time."""
        rows_in, _, rows_out = self._rows()
        time_s = described(added(self._splits[each.index].time_s for each in self._workers()))
        rows = (
            f"{rows_in:,} rows"
            + (f" in, {rows_out:,} out" if rows_out and not self._shown.trains else "")
            + ", "
        )
        text = f"{rows if self._splits else ''}{self._looked - self._began:.0f} s" + (
            f": {time_s}" if time_s else ""
        )
        return Line(
            self._shown.name, f"ended early, {text}" if failed else text, None if failed else 1.0
        )

    def _found_phase(self) -> str:
        """Phase of the worker that is furthest behind; starting if some have not begun."""
        workers = self._workers()
        if not workers:
            return STARTING if self._members else WAITING
        first = min((each.phase for each in workers), key=PHASES.index)
        # Some members have no status yet, because they have not begun.
        if len(self._members) < self._shown.size:
            return min(first, STARTING, key=PHASES.index)
        return first

    def _workers(self) -> list[MemberStatus]:
        return [each for each in self._members.values() if each.is_worker]

    def _rows(self) -> tuple[int, int, int]:
        """Rows in, rows read and rows out of all workers. Parameter servers have no rows."""
        workers = self._workers()
        return (
            sum(each.rows_in for each in workers),
            sum(each.rows_read for each in workers),
            sum(each.rows_out for each in workers),
        )

    def _step(self) -> int:
        return max((each.step for each in self._members.values()), default=0)

    def _speed(self, place: int) -> float:
        """Growth each second, over the last seconds: 1 rows in, 2 rows read, 3 rows out, 4
        steps.
        """
        if not self._seen:
            return 0.0
        first = self._seen[0]
        last = self._seen[-1]
        return (last[place] - first[place]) / (last[0] - first[0]) if last[0] > first[0] else 0.0

    def _phase_text(self) -> str:
        if self._phase == WAITING:
            # The seconds are a sign of life, because nothing else in the line changes.
            return f"{self.waits}, {self._looked - self._began:.0f} s"
        if self._phase == STARTING and self._shown.size > 1:
            here = sum(each.phase != STARTING for each in self._members.values())
            return f"starting, {here} of {self._shown.size} processes"
        if self._shown.predicts:
            gpus = ", ".join(sorted({each.gpus for each in self._members.values() if each.gpus}))
            where = f" on GPU {gpus}" if gpus else ""
            return {STARTING: "loading the model", FEEDING: f"predicting{where}"}.get(
                self._phase, "ending"
            )
        if self._phase == TRAINING and not self._shown.trains:
            return "running"
        return "ending" if self._phase == ENDED else self._phase

    def _reported(self) -> list[str]:
        """Step and metrics of the member that is ahead, as parts of the line."""
        ahead = max(self._members.values(), key=lambda each: each.step, default=None)
        if ahead is None:
            return []
        step = ahead.step
        metrics = dict(ahead.metrics)
        total = metrics.pop(TOTAL_STEPS, None)
        parts = [f"step {step:,}" + (f" of {total:,.0f}" if total else "")] if step else []
        shown = [(name, value) for name, value in sorted(metrics.items()) if math.isfinite(value)][
            :_MOST_METRICS
        ]
        return parts + [
            f"{name} {value:,.0f}" if value.is_integer() else f"{name} {value:.4g}"
            for name, value in shown
        ]

    def _left(self, rows_in: int, rows_read: int) -> tuple[float | None, float | None]:
        """Share that is done, and the seconds left; None where they are not known."""
        step = self._step()
        totals = [each.metrics.get(TOTAL_STEPS) for each in self._members.values()]
        total = max((each for each in totals if each), default=None)
        if total and step:
            speed = self._speed(4)
            return min(step / total, 1.0), max(total - step, 0) / speed if speed > 0 else None
        # In this phase all rows have arrived, so their number is known.
        if self._phase == TRAINING and rows_in and rows_read < rows_in:
            speed = self._speed(2)
            return rows_read / rows_in, (rows_in - rows_read) / speed if speed > 0 else None
        return None, None

    def _waits(self) -> list[str]:
        """Advice on the bottleneck, for operators that work while rows arrive."""
        workers = self._workers()
        time_s = added(each.time_s for each in workers)
        moved = sum(each.age_s for each in workers) - time_s[START]
        if moved < 1.0 or self._phase != FEEDING:
            return []
        waited = time_s[DATA] / moved
        worked = (time_s[WORK] + time_s[READ]) / moved
        verdict = ""
        who = "model" if self._shown.predicts else "script"
        if waited >= _BUSY:
            verdict = " (Flink is the bottleneck)"
        elif worked >= _BUSY:
            verdict = f" (the {who} is the bottleneck)"
        return [f"{who} waited {waited:.0%}, worked {worked:.0%}{verdict}"]


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02d} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02d} h"
