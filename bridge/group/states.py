"""The known states of a group, and the conclusions that each member draws from them. Pure.

No member decides for the others. All of them know the same states and draw the same conclusions, so
each decides for itself whether it is done, has failed, or holds up the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from akdl.wire import ENDED, FAILED, STARTING, MemberState, Share, Shares, Wishes
from akdl.wire.status_pb2 import MemberStatus
from bridge.group.addresses import label
from bridge.settings import GroupSettings

# Seconds of standstill of all workers, after which a parameter server that has returned counts as
# the cause.
LEFT_ALONE_S = 15.0
# Seconds of standstill, after which a process counts as waiting for workers that have returned.
MISSED_S = 2.0

_State = TypeVar("_State", MemberState, MemberStatus)
_PHASES = {STARTING: "its process has not connected", ENDED: "ended", FAILED: "failed"}


def awaited(still: Sequence[_State]) -> _State:
    """Return the member that the other ones wait for, of members without progress.

    A script that waits for another script has read at least as many rows, and is often in a call of
    TensorFlow. If most members sleep, one that spins is in an endless loop; if most spin, they poll
    for one that sleeps.
    """
    spins = 2 * sum(state.spinning for state in still) <= len(still)
    # False comes before True: of scripts with equal rows, one outside of TensorFlow is the suspect.
    first = min((state.rows_read, state.calling) for state in still)
    suspects = [state for state in still if (state.rows_read, state.calling) == first]
    return max(suspects, key=lambda state: (state.spinning == spins, state.idle_s))


class KnownStates:
    """The last known state of each member, its own included. The caller holds the member's lock.

    Two parts of a state have different ages. Its essence, such as the phase, arrives with each
    change. Its progress arrives only while this member stands still and asks for all states; at
    other times all members count as active.
    """

    def __init__(self, settings: GroupSettings) -> None:
        self._settings = settings
        self._states: dict[int, MemberState] = {}
        self._has_formed = False
        # Hosts of the members by index, for errors; the list is empty until the addresses arrive.
        self.hosts: list[str] = []

    def update(self, states: Iterable[MemberState]) -> None:
        self._states.update((state.index, state) for state in states)

    def update_essence(self, states: Iterable[MemberState]) -> None:
        """Store newer states whose later progress is not sent: these members count as active."""
        for state in states:
            state.idle_s = 0.0
            self._states[state.index] = state

    def forget_progress(self) -> None:
        """Count all members as active, since newer progress is not sent."""
        for state in self._states.values():
            state.idle_s = 0.0

    def have_ended(self, members: Iterable[int]) -> bool:
        return all(self._phase(index) == ENDED for index in members)

    def returned(self, index: int) -> list[str]:
        """Names of the other members whose scripts have returned, for errors of this one."""
        return [
            self._name(other)
            for other in self._settings.deciding
            if other != index and self._phase(other) == ENDED
        ]

    def wishes(self, index: int) -> Wishes:
        """Requests to this member's process, which travel in the answer to its report."""
        state = self._states[index]
        is_still = state.idle_s >= MISSED_S and not state.waiting
        return Wishes(
            dataset_file=any(each.wants_files for each in self._states.values()),
            returned=", ".join(self.returned(index)) if is_still else "",
        )

    @property
    def is_formed(self) -> bool:
        """All processes have connected; a script that starts again later does not change that."""
        # The first time counts, because a process that starts again is STARTING for a while.
        self._has_formed = self._has_formed or not self.unformed
        return self._has_formed

    @property
    def unformed(self) -> list[str]:
        return [
            self._name(index)
            for index in range(self._settings.size)
            if self._phase(index) == STARTING
        ]

    def silent(self, silent_s: float, index: int) -> list[str]:
        return [
            self._name(state.index)
            for state in self._states.values()
            if state.index != index
            and state.phase not in (STARTING, ENDED, FAILED)
            and state.silent_s > silent_s
        ]

    # Equal steps, and the files of all workers.

    @property
    def input_has_ended(self) -> bool:
        return all(
            index in self._states and self._states[index].input_ended
            for index in self._settings.fed
        )

    @property
    def share_sizes(self) -> list[int]:
        return [self._states[index].rows for index in self._settings.fed if index in self._states]

    @property
    def giver(self) -> int | None:
        """The member that sends a sample row to members without rows; None if no share is empty, or
        all are.
        """
        empty = [not rows for rows in self.share_sizes]
        if not any(empty) or all(empty):
            return None
        # All members choose the same giver without a message: the first worker that has rows.
        return self._settings.fed[empty.index(False)]

    @property
    def shares(self) -> Shares | None:
        """The files of all workers that get rows, in order; None until all are complete."""
        states = [self._states.get(index) for index in self._settings.fed]
        if not all(state is not None and state.dataset_complete for state in states):
            return None
        return Shares(
            shares=[
                Share(path=state.dataset_file, rows=state.rows)
                for state in states
                if state is not None
            ]
        )

    # Standstill.

    def lagging(self, idle_s: float) -> int | None:
        """Return the member that holds up a group without progress for `idle_s` seconds; else None.

        Progress is to read or write rows, to report, to work, to end, or to fail: the error is on
        its way then. A member that waits for Flink may hold up all others without a fault, unless
        Flink itself waits for one of them.
        """
        running = [
            state for state in self._states.values() if state.phase not in (STARTING, ENDED, FAILED)
        ]
        stuck = [
            state
            for state in running
            if not state.waiting and state.index in self._settings.deciding
        ]
        if not stuck or any(state.idle_s < idle_s for state in running if not state.waiting):
            return None
        # The end of another member is progress too: the others may go on because of it, and the
        # error of one that has failed is on its way.
        over = [state for state in self._states.values() if state.phase in (ENDED, FAILED)]
        if any(state.idle_s + state.silent_s < idle_s for state in over):
            return None
        # Flink deals rows in turn. With a full queue in front of a stuck member it is that member
        # that holds up Flink, and so the members that wait for Flink.
        if any(state.waiting for state in running) and not any(state.input_full for state in stuck):
            return None
        return awaited(stuck).index

    def is_deserted_by(self, index: int) -> bool:
        """Return True if this member only serves workers, and all of them stand still.

        Who waits for a server sleeps. A worker that uses the processor may save a large model, or
        train on rows that it read long ago, so it does not count.
        """
        deciding = self._settings.deciding
        running = [
            state
            for state in self._states.values()
            if state.index in deciding and state.phase != ENDED
        ]
        stand_still = [
            state
            for state in running
            if not (state.waiting or state.spinning) and state.idle_s >= LEFT_ALONE_S
        ]
        return index not in deciding and bool(running) and len(stand_still) == len(running)

    def can_do_without(self, index: int) -> bool:
        """Return True for a parameter server while no worker has failed: scripts that need no
        servers usually fail there.
        """
        deciding = self._settings.deciding
        is_server = index >= self._settings.num_workers
        return is_server and not any(self._phase(other) == FAILED for other in deciding)

    def describe(self) -> str:
        """Table of all members for an error, a line each."""
        return "\n".join(self._describe(index) for index in range(self._settings.size))

    def _describe(self, index: int) -> str:
        where = self._name(index)
        state = self._states.get(index)
        if state is None:
            return f"{where}: has not reported"
        if state.phase in _PHASES:
            return f"{where}: {_PHASES[state.phase]}{': ' + state.failure if state.failure else ''}"
        rows = (
            f"has read {state.rows_read} of {state.rows} rows"
            if index in self._settings.fed
            else "runs"
        )
        since = "waits for Flink" if state.waiting else f"last progress {state.idle_s:.0f} s ago"
        does = (", in a call of TensorFlow" if state.calling else "") + (
            ", uses the processor" if state.spinning else ""
        )
        return f"{where}: {rows}, {since}{does}"

    def _name(self, index: int) -> str:
        name = label(index, self._settings.num_workers)
        return f"{name} on {self.hosts[index]}" if self.hosts else name

    def _phase(self, index: int) -> int:
        return self._states[index].phase if index in self._states else STARTING
