"""The time of members over all their attempts, split by its use. Pure.

Each second has one use, so that the shares add up to 100 % and one cause can be named. Sums of
waits that overlapped did not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from akdl.wire.status_pb2 import MemberStatus
from bridge.member.status import DATA, EXPORT, LOST, PEERS, READ, START, USES, WORK

WORDS = {
    WORK: "useful work",
    READ: "reading rows",
    DATA: "waiting for data",
    PEERS: "waiting for peers",
    START: "start",
    EXPORT: "export",
    LOST: "lost to restarts",
}
_MOST_MARKS = 1000


class TimeSplit:
    """The use of one member's time since `began`; each second has one use.

    Of a failed attempt, the time after the last point that the next attempt does not repeat is
    lost: the last step below the first one that it reports, or the last rows of a stream that are
    done. So is the time from the end of an attempt until the next one works.
    """

    def __init__(self, began: float) -> None:
        self.time_s: dict[str, float] = {}
        self._attempt: int | None = None
        # Begin and end of the current attempt.
        self._began = self._ended = began
        self._is_first = True
        # Time of earlier attempts, by use.
        self._before: dict[str, float] = {}
        # Time until the last point that no later attempt repeats.
        self._kept: dict[str, float] = {}
        self._rows_done = 0
        # These are steps after that point, each with the time until it was reached.
        self._marks: list[tuple[int, dict[str, float]]] = []
        # The first attempt repeats nothing. Of a later one, the first step shows how much it
        # repeats.
        self._is_going_on = True

    def look(self, now: float, status: MemberStatus, first_step: int, step: int) -> None:
        """Take a status of the member.

        Args:
            now: Seconds of the clock of `began`.
            status: The member's latest status.
            first_step: First step that its group has reported in this attempt; 0 before a report.
            step: Last step that its group has reported in this attempt; 0 before a report.
        """
        if status.attempt != self._attempt:
            self._begin(now, status)
        if step and not self._is_going_on:
            self._go_on(first_step)
        own = dict(status.time_s)
        # A restart is only necessary after a failure, so the start of a later attempt is lost time.
        if not self._is_first:
            own[LOST] = own.pop(START, 0.0)
        self.time_s = added([self._before, own])
        self._ended = self._began + status.age_s
        if status.rows_done > self._rows_done:
            self._rows_done = status.rows_done
            self._kept = self.time_s
            self._marks = []
        elif step and (not self._marks or step > self._marks[-1][0]):
            self._marks.append((step, self.time_s))
            if len(self._marks) > _MOST_MARKS:
                # A long training has millions of steps. Half of the marks are dropped evenly, so a
                # restart is off by a few marks at most.
                del self._marks[:-1:2]

    def _begin(self, now: float, status: MemberStatus) -> None:
        """Begin an attempt.

        The unsaved time of the earlier one, and the pause between the two, are lost.
        """
        self._is_first = self._attempt is None
        self._attempt = status.attempt
        self._rows_done = 0
        self._is_going_on = self._is_first
        # Clocks of two reports differ by the time of a look. An attempt that seemed to begin before
        # its predecessor ended would count seconds twice.
        self._began = max(now - status.age_s, self._ended)
        total_s = _total(self.time_s) + self._began - self._ended
        kept = {**self._kept, START: self.time_s.get(START, 0.0)}
        self._before = _filled(kept, START if self._is_first else LOST, total_s)

    def _go_on(self, first_step: int) -> None:
        """Correct the lost time once the first step of the attempt shows from where it repeats."""
        self._is_going_on = True
        repeated_from = [time_s for reached, time_s in self._marks if reached < first_step]
        if repeated_from:
            self._before = _filled(repeated_from[-1], LOST, _total(self._before))
        self._kept = self._before
        self._marks = []


def added(times: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Sum of several times, by use."""
    every = list(times)
    return {use: sum(time_s.get(use, 0.0) for time_s in every) for use in USES}


def percentages(time_s: Mapping[str, float]) -> dict[str, int]:
    """Return the shares of the uses that have one; they add up to 100. Empty without any time."""
    known = {use: max(time_s.get(use, 0.0), 0.0) for use in USES}
    total_s = _total(known)
    # A damaged record may have any numbers.
    if not 0.0 < total_s < math.inf:
        return {}
    exact = {use: 100 * (seconds / total_s) for use, seconds in known.items()}
    # The shares are rounded down, and the percents that are then missing go to the uses with the
    # largest remainders.
    by_rest = sorted(USES, key=lambda use: int(exact[use]) - exact[use])
    missing = 100 - sum(map(int, exact.values()))
    whole = {use: int(exact[use]) + (use in by_rest[:missing]) for use in USES}
    return {use: percent for use, percent in whole.items() if percent}


def described(time_s: Mapping[str, float]) -> str:
    """Shares of the uses as text, such as "useful work 80%, start 20%"."""
    return ", ".join(f"{WORDS[use]} {percent}%" for use, percent in percentages(time_s).items())


def _filled(time_s: Mapping[str, float], use: str, total_s: float) -> dict[str, float]:
    """Return `time_s` with so much of `use` that the sum is `total_s`."""
    return {**time_s, use: time_s.get(use, 0.0) + total_s - _total(time_s)}


def _total(time_s: Mapping[str, float]) -> float:
    return sum(time_s.values())
