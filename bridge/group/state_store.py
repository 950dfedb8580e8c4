"""Member 0's store of all states. Pure; the time is an argument.

An answer has only the states whose essence has changed since the last report of the member, so a
quiet group costs next to nothing. To send all states to all members was simulated too: 128
members then take 21 % of a processor in member 0, and 1.9 % with changes alone.
"""

from __future__ import annotations

from akdl.wire import ENDED, RUNNING, GroupState, MemberReport, MemberState
from bridge.settings import GroupSettings

# Seconds between two reports of a member in a small group.
REPORT_S = 0.25
# Without a report or an answer for these seconds, a member counts as lost.
LOST_S = 30.0
# After these seconds without progress, a member requests the states of all members.
STILL_S = 5.0
# Member 0 of a large quiet group gets so many reports a second. Each takes it about 0.2 ms.
_REPORTS_PER_S = 100
# It gets more of them while members wait for each other, because they do no other work then.
_URGENT_REPORTS_PER_S = 400
# A member that requests all states gets so many of them a second. A state takes about 1 us.
_STATES_PER_S = 50
_SILENCE_LOOK_S = 1.0


def report_s(size: int, is_urgent: bool) -> float:
    """Seconds between two reports of a member without news, in a group of this size."""
    wait_s = size / (_URGENT_REPORTS_PER_S if is_urgent else _REPORTS_PER_S)
    # However large the group is, a member reports three times before it would count as lost.
    return min(max(REPORT_S, wait_s), LOST_S / 3)


def ask_all_s(size: int) -> float:
    """Seconds between two requests for all states, whose answers grow with the group."""
    return max(REPORT_S, size / _STATES_PER_S)


def essence(state: MemberState) -> tuple[object, ...]:
    """Return the part of a state that every member needs; it changes a few times in the life of a
    member.
    """
    # The number of rows grows with each chunk, so it is news only once it is final.
    rows = state.rows if state.input_ended else None
    return (
        state.phase,
        state.failure,
        state.input_ended,
        rows,
        state.dataset_file,
        state.dataset_complete,
        state.wants_files,
    )


def stands_still(state: MemberState, settings: GroupSettings) -> bool:
    """Return True for a member without progress: it needs the progress of all others to find the
    cause.
    """
    # With a short stallTimeout, the states of all have to arrive before it has passed.
    limit_s = min(STILL_S, settings.stall_timeout_s / 2) if settings.stall_timeout_s else STILL_S
    return state.phase == RUNNING and not state.waiting and state.idle_s >= limit_s


class StateStore:
    """The last state of every member, with the version at which its essence last changed."""

    def __init__(self) -> None:
        self._states: dict[int, MemberState] = {}
        self._reported: dict[int, float] = {}  # time of the last report, monotonic seconds
        self._answered: set[int] = set()  # members that have received an answer
        # The versions are in ascending order, so the newest changes are the last ones.
        self._versions: dict[int, int] = {}
        self._version = 0
        self._silent: set[int] = set()
        self._looked = 0.0
        self._sample = b""

    def answer(self, report: MemberReport, now: float) -> GroupState:
        """Store the state of a report, and return what has changed for its member."""
        state = report.state
        known = self._states.get(state.index)
        # Such a report is older than the one of the end, and arrived late. It must not revive the
        # member, because no later report would correct that.
        if known is not None and known.phase == ENDED and state.phase != ENDED:
            state = known
        self._states[state.index], self._reported[state.index] = state, now
        # A version above 0 is from an answer, so the member has received one.
        if report.version:
            self._answered.add(state.index)
        # A member that reports again is news too, because the others count it as silent.
        if known is None or essence(known) != essence(state) or state.index in self._silent:
            self._silent.discard(state.index)
            self._note_change(state.index)
        self._look_for_silence(now)
        # A member without rows may ask for the sample later, so it stays.
        self._sample = report.sample or self._sample
        answer = GroupState(
            version=self._version,
            is_all=report.wants_all,
            sample=self._sample if report.wants_sample else b"",
        )
        answer.members.extend(
            self._all(now) if report.wants_all else self._changed_since(report.version)
        )
        return answer

    def waits_for_answer(self, index: int, now: float) -> bool:
        """Return True for a member that reports, and has never received an answer: it would take
        this group for unreachable.
        """
        return index not in self._answered and now < self._reported[index] + LOST_S / 2

    def _all(self, now: float) -> list[MemberState]:
        for index, each in self._states.items():
            each.silent_s = now - self._reported[index]
        return list(self._states.values())

    def _changed_since(self, version: int) -> list[MemberState]:
        changed = []
        for index in reversed(self._versions):
            # The newest changes are last in the dictionary, so all further ones are older.
            if self._versions[index] <= version:
                break
            changed.append(self._states[index])
        return changed

    def _note_change(self, index: int) -> None:
        self._version += 1
        # A dictionary keeps the order of insertion, so a key has to leave to come last again.
        self._versions.pop(index, None)
        self._versions[index] = self._version

    def _look_for_silence(self, now: float) -> None:
        """Note members that have not reported for too long as changed, so that all others see it.

        Only member 0 can measure this time, because only it receives the reports.
        """
        if now < self._looked + _SILENCE_LOOK_S:
            return
        self._looked = now
        for index, reported in self._reported.items():
            state = self._states[index]
            if now - reported > LOST_S and state.phase == RUNNING and index not in self._silent:
                state.silent_s = now - reported
                self._silent.add(index)
                self._note_change(index)
