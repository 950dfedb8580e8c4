"""Event time on its way through a script, from watermarks of the input to watermarks of the output.

Flink forwards a watermark past a Python function before the rows that the function still holds,
so windows behind a script would close before its rows arrive. With SOURCE_WATERMARK(), watermarks
therefore travel as elements between the rows, and this module holds them until the script has
finished the rows before them. Pure; no clock.
"""

from __future__ import annotations

import json
import struct
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_TIME = struct.Struct(">q")
# These are Flink's watermarks before the first row and after the last one.
FIRST_TIME = -(2**63)
LAST_TIME = 2**63 - 1
_LATE = "akdl-late-rows"


class EventTime(NamedTuple):
    """Event time of a stream at one place. An idle stream has no rows for now and holds up no
    other.
    """

    time: int = FIRST_TIME
    is_idle: bool = False


def time_bytes(time: int) -> bytes:
    return _TIME.pack(time)


def time_of(content: bytes) -> int:
    return int(_TIME.unpack(content)[0])


class _Held(NamedTuple):
    """A watermark that waits until the script has finished the first `position` rows."""

    position: int
    event_time: EventTime


class Watermarks:
    """Watermarks that wait for the script of one member.

    A position is the number of rows before it. Idle and ended subtasks hold nothing up, as in
    Flink. The end of all subtasks does not advance the time: rows may follow until the script has
    ended. `ended` has the ones of a checkpoint.
    """

    def __init__(self, ended: Mapping[int, int] | None = None) -> None:
        self._ended = dict(ended or {})
        self._inputs: list[EventTime] = []
        self._held: deque[_Held] = deque()
        self._sent = EventTime()

    def add(self, subtask: int, of: int, time: int | None, position: int) -> None:
        """Record the watermark of a subtask, or None when it is idle."""
        # A subtask of an earlier job counts as ended only if its job had the same number of
        # subtasks; with another one, the number names another subtask.
        if len(self._inputs) != of:
            self._inputs = [
                EventTime(LAST_TIME if self._ended.get(number) == of else FIRST_TIME)
                for number in range(of)
            ]
        before = self._inputs[subtask]
        self._inputs[subtask] = (
            EventTime(before.time, True) if time is None else EventTime(max(time, before.time))
        )
        found = self._combined()
        if found is None:
            return
        # The new time is compared with the latest one that waits, because it takes effect after it.
        latest = self._held[-1].event_time if self._held else self._sent
        if latest.is_idle and not found.is_idle:
            # Wake at once, also the output: watermarks of other members overtake the rows of one
            # that counts as idle.
            self._sent = EventTime(self._sent.time, True)
            # Position 0 lets the first of these leave with the next call. The ones that wait lose
            # their idleness but keep their times.
            held = [_Held(0, self._sent), *self._held]
            self._held = deque(_Held(at, EventTime(each.time)) for at, each in held)
        found = EventTime(max(found.time, latest.time), found.is_idle)
        if found != latest:
            self._held.append(_Held(position, found))

    def pass_rows(self, rows: int) -> EventTime | None:
        """New event time of the output once the script has finished so many rows from the first on;
        None if it stays.
        """
        found = None
        while self._held and self._held[0].position <= rows:
            found = self._held.popleft().event_time
        if found is None or found == self._sent:
            return None
        self._sent = found
        return found

    @property
    def waits_for(self) -> int | None:
        return self._held[0].position if self._held else None

    def _combined(self) -> EventTime | None:
        """Event time of all subtasks together; None once all have ended, as rows may follow."""
        running = [each for each in self._inputs if each.time < LAST_TIME]
        if not running:
            return None
        active = [each.time for each in running if not each.is_idle]
        if active:
            return EventTime(min(active))
        return EventTime(max(each.time for each in running), True)


def late_counter(operator: str, script: str, column: str, carries: bool) -> str:
    """Name of the accumulator in which LateRows.java counts; it has all that the warning needs.

    The program reads the accumulators at the end of a job, of which it gets names and counts alone.
    """
    return json.dumps([_LATE, operator, script, column, carries])


def late_rows(accumulators: Mapping[str, object]) -> Iterator[str]:
    """Yield a warning for each operator of a finished job whose output had late rows."""
    for name, count in accumulators.items():
        if not name.startswith(f'["{_LATE}"') or not count:
            continue
        _, operator, script, column, carries = json.loads(name)
        reason = (
            "the script wrote other times than it read, or read further rows before it wrote them"
            if carries
            else (
                f"WATERMARK FOR {column} AS SOURCE_WATERMARK() uses the watermarks of the input,"
                " which no row overtakes"
            )
        )
        yield (
            f"{operator} ({script}): {count:,} rows arrived behind the watermark of {column!r}, so"
            f" windows that had closed before lack them: {reason}; see docs/streams.md"
        )
