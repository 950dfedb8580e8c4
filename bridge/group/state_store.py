"""What member 0 keeps of all members, and what it answers to each report. Pure.

A member is told of those members alone whose state has changed in essence since its last report. So a report costs as much as
has changed, which is nothing while all is well, and all reports of a group cost as much as it has members. The rest of a
state, such as rows read so far, is sent on demand, and is needed only by a member that stands still.
"""

from __future__ import annotations

from akdl.wire import RUNNING, GroupState, MemberReport, MemberState
from bridge.settings import GroupSettings

REPORT_S = 0.25  # between reports of a small group
LOST_S = 30.0  # without a report or an answer, a member is given up
STILL_S = 5.0  # without progress, after which a member asks for the state of all
_REPORTS_PER_S = 100  # of all members of a large group, while all is well; each takes about 0.2 ms of member 0
_URGENT_REPORTS_PER_S = 400  # while they wait for each other
_STATES_PER_S = 50  # for each member that asks for all states: a state takes about 1 us
_SILENCE_LOOK_S = 1.0


def report_s(size: int, is_urgent: bool) -> float:
    """Return how many seconds a member waits between reports while its own state does not change in essence."""
    wait_s = size / (_URGENT_REPORTS_PER_S if is_urgent else _REPORTS_PER_S)
    return min(max(REPORT_S, wait_s), LOST_S / 3)


def ask_all_s(size: int) -> float:
    """Return how many seconds a member waits before it asks again for the state of all of `size` members."""
    return max(REPORT_S, size / _STATES_PER_S)


def essence(state: MemberState) -> tuple[object, ...]:
    """Return what all members have to know of a state; it changes a few times in the life of a member."""
    rows = state.rows if state.input_ended else None
    return (state.phase, state.failure, state.input_ended, rows, state.dataset_file, state.dataset_complete, state.wants_files)


def stands_still(state: MemberState, settings: GroupSettings) -> bool:
    """Whether a member has to know of the progress of all others, because it makes none itself."""
    limit_s = min(STILL_S, settings.stall_timeout_s / 2) if settings.stall_timeout_s else STILL_S
    return state.phase == RUNNING and not state.waiting and state.idle_s >= limit_s


class Board:
    """The last state of every member, with the version at which it has last changed in essence."""

    def __init__(self) -> None:
        self._states: dict[int, MemberState] = {}
        self._reported: dict[int, float] = {}  # when each did so last, monotonic seconds
        self._versions: dict[int, int] = {}  # in order of the versions
        self._version = 0
        self._silent: set[int] = set()
        self._looked = 0.0

    def answer(self, report: MemberReport, now: float) -> GroupState:
        """Note a member's state and return what it does not know of the others."""
        state = report.state
        known = self._states.get(state.index)
        self._states[state.index], self._reported[state.index] = state, now
        if known is None or essence(known) != essence(state) or state.index in self._silent:
            self._silent.discard(state.index)
            self._note_change(state.index)
        self._look_for_silence(now)
        if report.wants_all:
            for index, each in self._states.items():
                each.silent_s = now - self._reported[index]
            return GroupState(members=self._states.values(), version=self._version, is_all=True)
        changed = []
        for index in reversed(self._versions):
            if self._versions[index] <= report.version:
                break
            changed.append(self._states[index])
        return GroupState(members=changed, version=self._version)

    def _note_change(self, index: int) -> None:
        self._version += 1
        self._versions.pop(index, None)  # to come last
        self._versions[index] = self._version

    def _look_for_silence(self, now: float) -> None:
        if now < self._looked + _SILENCE_LOOK_S:
            return
        self._looked = now
        for index, reported in self._reported.items():
            state = self._states[index]
            if now - reported > LOST_S and state.phase == RUNNING and index not in self._silent:
                state.silent_s = now - reported
                self._silent.add(index)
                self._note_change(index)
