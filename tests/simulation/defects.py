"""Defects planted in the product, to prove that schedules meet them and that the checker objects.

The last ones are what the product did before schedules found it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from akdl import entry
from akdl.rows.stream_rows import StreamRows
from akdl.runner import cuts
from akdl.runner.cuts import Cuts, _Saves
from akdl.wire import ENDED, FAILED, MemberReport, Output, Rows
from bridge.flink.event_time import Watermarks
from bridge.flink.exchange import Exchange
from bridge.flink.stream_exchange import Pending, StreamExchange
from bridge.group import diagnosis, membership
from bridge.group.membership import Membership
from bridge.group.state_store import LOST_S, StateStore, essence
from bridge.group.states import KnownStates
from bridge.member.member import Member
from bridge.member.observer import ProgressWatch
from bridge.member.session import Session, Stage
from bridge.member.written_rows import WrittenQueue, WrittenRows

Patch = pytest.MonkeyPatch


def uncommitted_rows_are_not_kept(patch: Patch) -> None:
    patch.setattr(Member, "rows_done", property(lambda self: self._session.progress.rows_read))


def rows_are_done_before_they_are_written(patch: Patch) -> None:
    take_rows = Session.take_rows
    late: dict[Session, list[Any]] = {}

    def take(self: Session) -> list[Any]:
        before, taken = late.pop(self, []), take_rows(self)
        if self.outcome is not None:
            return before + taken
        late[self] = taken
        return before

    patch.setattr(Session, "take_rows", take)


def the_last_chunk_is_dropped_at_a_restart(patch: Patch) -> None:
    restore = Pending.restore
    patch.setattr(Pending, "restore", lambda self: restore(self)[:-1])


def rows_of_another_key_are_dropped(patch: Patch) -> None:
    def take(self: Pending) -> list[Any]:
        self._chunks.clear()
        return []

    patch.setattr(Pending, "take", take)


def rows_of_another_key_stay_there_too(patch: Patch) -> None:
    patch.setattr(Pending, "take", lambda self: [] if self._chunks.is_empty() else self.restore())


def a_chunk_is_offered_twice(patch: Patch) -> None:
    offer = Session.offer

    def twice(self: Session, rows: int, columns: bytes, extra_input: int = 0) -> None:
        offer(self, rows, columns, extra_input)
        if self.rows_in % 3 == 0:
            offer(self, rows, columns, extra_input)

    patch.setattr(Session, "offer", twice)


def commits_are_forgotten(patch: Patch) -> None:
    def drop(self: Pending, rows: int) -> None:
        """The state stays as it is until a whole chunk is done."""
        self.done = max(self.done, self._base + rows)

    patch.setattr(Pending, "drop", drop)


def the_wrong_member_is_named(patch: Patch) -> None:
    lagging = KnownStates.lagging

    def other(self: KnownStates, idle_s: float) -> int | None:
        found = lagging(self, idle_s)
        return None if found is None else (found + 1) % self._settings.num_workers

    patch.setattr(KnownStates, "lagging", other)


def the_end_of_members_is_never_known(patch: Patch) -> None:
    patch.setattr(Membership, "is_over", property(lambda self: False))


def watermarks_overtake_rows(patch: Patch) -> None:
    add = Watermarks.add
    patch.setattr(
        Watermarks, "add", lambda self, subtask, of, time, position: add(self, subtask, of, time, 0)
    )


def rows_of_a_savepoint_go_to_a_server(patch: Patch) -> None:
    restore = StreamExchange._restore

    def to_all(self: StreamExchange) -> Any:
        settings = self._settings
        self._settings = dataclasses.replace(settings, num_workers=settings.size, num_ps=0)
        yield from restore(self)
        self._settings = settings

    patch.setattr(StreamExchange, "_restore", to_all)


# Found by schedules.


def a_script_that_starts_again_does_not_know_who_has_left(patch: Patch) -> None:
    start = Exchange._start_member

    patch.setattr(Exchange, "_start_member", lambda self, before=None: start(self))


def a_script_that_starts_again_forgets_whom_it_knew(patch: Patch) -> None:
    start = Exchange._start_member

    def forgetful(self: Exchange, before: Member | None = None) -> None:
        start(self, before)
        membership = self._member._membership
        membership._known, membership._version = KnownStates(self._settings), 0

    patch.setattr(Exchange, "_start_member", forgetful)


def a_script_starts_again_after_its_group_has_ended(patch: Patch) -> None:
    a_chief_that_has_left_is_waited_for(patch)

    def finish(self: StreamExchange) -> Any:
        yield from self._member.finish()
        self._drop_done()
        while self._has_to_restart():
            yield from self._restart()
            yield from self._member.finish()
            self._drop_done()

    patch.setattr(StreamExchange, "_finish", finish)


def a_script_that_starts_again_dissolves_its_group(patch: Patch) -> None:
    patch.setattr(KnownStates, "is_formed", property(lambda self: not self.unformed))


def a_chief_that_has_left_is_waited_for(patch: Patch) -> None:
    over = Membership.is_over.fget  # type: ignore[attr-defined]
    patch.setattr(
        Membership,
        "is_over",
        property(lambda self: self.is_end_known if self._index else over(self)),
    )
    check = Member._check

    def of_group_too(self: Member) -> None:
        check(self)
        is_lost = (
            self._index
            and self._session.stage == Stage.ENDED
            and self._membership.unanswered_s > LOST_S
        )
        if is_lost and not self._stopped:
            raise self._process.error("the chief has not answered for 30 s")

    patch.setattr(Member, "_check", of_group_too)


def a_chief_that_has_ended_misses_nobody(patch: Patch) -> None:
    silent = KnownStates.silent

    def unless_ended(self: KnownStates, silent_s: float, index: int) -> list[str]:
        return [] if self._phase(index) == ENDED else silent(self, silent_s, index)

    patch.setattr(KnownStates, "silent", unless_ended)


def a_late_report_revives_a_member(patch: Patch) -> None:
    answer = StateStore.answer

    def overwriting(self: StateStore, report: MemberReport, now: float) -> Any:
        known = self._states.get(report.state.index)
        if known is not None and known.phase == ENDED and essence(known) != essence(report.state):
            del self._states[report.state.index]
        return answer(self, report, now)

    patch.setattr(StateStore, "answer", overwriting)


def rows_that_wait_count_as_taken(patch: Patch) -> None:
    def columns(self: StreamRows, finishes: bool = True) -> Any:
        for chunks in self._scan():
            for chunk in chunks:
                yield Rows.FromString(chunk.columns)
                if finishes:
                    self.finish(chunk.rows)

    patch.setattr(StreamRows, "columns", columns)


def all_complain_of_a_late_member_at_once(patch: Patch) -> None:
    patch.setattr(diagnosis, "ECHO_S", 0.0)


def a_lost_sample_silences_a_member(patch: Patch) -> None:
    patch.setattr(membership, "_SAMPLE_S", 60.0)


def a_member_that_has_ended_makes_progress_with_each_report(patch: Patch) -> None:
    answer = StateStore.answer

    def keeping(self: StateStore, report: MemberReport, now: float) -> Any:
        known = self._states.get(report.state.index)
        if known is not None and known.phase == ENDED:
            report.state.CopyFrom(known)
        return answer(self, report, now)

    patch.setattr(StateStore, "answer", keeping)


def rows_that_wait_for_commits_do_not_count(patch: Patch) -> None:
    patch.setattr(Session, "refuse", lambda self: None)


def a_script_that_has_returned_hangs(patch: Patch) -> None:
    patch.setattr(Session, "awaits_rows", property(lambda self: self.progress.waiting))


def a_wait_for_rows_was_a_standstill_once_they_arrive(patch: Patch) -> None:
    look = ProgressWatch.look
    patch.setattr(ProgressWatch, "look", lambda self, *values: look(self, *values[:4]))


def a_script_that_commits_is_saved_with_its_next_row(patch: Patch) -> None:
    wait = StreamRows.wait_for_batch
    patch.setattr(
        StreamRows,
        "wait_for_batch",
        lambda self, *values: self.batch_size == 0 or wait(self, *values),
    )


def a_failure_changes_who_hangs(patch: Patch) -> None:
    lagging = KnownStates.lagging

    def without_failed(self: KnownStates, idle_s: float) -> int | None:
        others = KnownStates(self._settings)
        others.update(state for state in self._states.values() if state.phase != FAILED)
        return lagging(others, idle_s)

    patch.setattr(KnownStates, "lagging", without_failed)


# In what a script saves.


def a_state_is_stored_one_call_late(patch: Patch) -> None:
    pass_cut = StreamExchange._pass_cut
    late: dict[StreamExchange, bytes] = {}

    def store_last(self: StreamExchange, cut: WrittenRows) -> Iterator[object]:
        late[self], cut.state = cut.state, late.get(self, b"")
        return pass_cut(self, cut)

    patch.setattr(StreamExchange, "_pass_cut", store_last)


def rows_leave_before_their_state_is_stored(patch: Patch) -> None:
    patch.setattr(Session, "rows_done", property(lambda self: self.progress.rows_read))


def a_state_is_stored_before_its_rows_leave(patch: Patch) -> None:
    pass_cut = StreamExchange._pass_cut
    late: dict[StreamExchange, int] = {}

    def drop_last(self: StreamExchange, cut: WrittenRows) -> Iterator[object]:
        late[self], cut.cut = cut.cut, late.get(self, 0)
        return pass_cut(self, cut)

    patch.setattr(StreamExchange, "_pass_cut", drop_last)
    patch.setattr(StreamExchange, "_drop_done", lambda self: None)


def a_state_is_not_restored(patch: Patch) -> None:
    restore = cuts._restore
    patch.setattr(
        cuts, "_restore", lambda state, action, folder: restore(state, lambda path: None, folder)
    )


def a_script_that_starts_again_gets_the_state_of_the_job(patch: Patch) -> None:
    start = Exchange._start_member
    first: dict[Exchange, bytes] = {}

    def start_member(self: Exchange, before: Member | None = None) -> None:
        if before is not None:
            self._saved = first.get(self, b"")
        start(self, before)

    restore = StreamExchange._restore

    def note(self: StreamExchange) -> Iterator[object]:
        yield from restore(self)
        first.setdefault(self, self._saved)

    patch.setattr(Exchange, "_start_member", start_member)
    patch.setattr(StreamExchange, "_restore", note)


def output_leaves_before_the_save(patch: Patch) -> None:
    add = WrittenQueue.add

    def leave(self: WrittenQueue, output: Output) -> None:
        add(self, output)
        self.release()

    patch.setattr(WrittenQueue, "add", leave)


def a_failed_save_is_a_cut(patch: Patch) -> None:
    reach = Cuts._save

    def save(self: Cuts, rows: int, is_last: bool = False) -> None:
        reach(self, rows, is_last)
        self._writer.cut(rows)  # nothing where the save has made it

    patch.setattr(Cuts, "_save", save)


def a_failed_save_at_the_end_is_no_error(patch: Patch) -> None:
    save = _Saves.save
    patch.setattr(
        _Saves, "save", lambda self, rows, is_last, learnt: save(self, rows, False, learnt)
    )


def unsaved_bytes_have_no_bound(patch: Patch) -> None:
    save = _Saves.save

    def unbounded(saves: _Saves, *arguments: Any) -> bytes | None:
        taken, saves._taken_bytes = saves._taken_bytes, lambda: saves._bytes
        try:
            return save(saves, *arguments)
        finally:
            saves._taken_bytes = taken

    patch.setattr(_Saves, "save", unbounded)


def rows_that_are_there_count_as_learnt(patch: Patch) -> None:
    reach = Cuts.reach
    patch.setattr(Cuts, "reach", lambda self, rows: reach(self, max(rows, self._rows.given)))


def states_of_groups_are_kept(patch: Patch) -> None:
    patch.setattr(entry, "_is_alone", lambda cluster: True)


def a_wait_for_a_save_is_a_standstill(patch: Patch) -> None:
    wait = StreamRows.wait_for_batch

    def wait_alone(self: StreamRows, after: int, timeout_s: float) -> bool:
        before, self._counted_as_waiting = (
            self._counted_as_waiting,
            lambda for_script=True: nullcontext(),
        )  # type: ignore[method-assign]
        try:
            return wait(self, after, timeout_s)
        finally:
            self._counted_as_waiting = before  # type: ignore[method-assign]

    patch.setattr(StreamRows, "wait_for_batch", wait_alone)


Plant = Callable[[Patch], None]
# With the kind and the seed of a schedule that meets it, and words of the objection.
PLANTED: list[tuple[Plant, str, int, str]] = [
    (uncommitted_rows_are_not_kept, "stream", 6, "lost: "),
    (rows_are_done_before_they_are_written, "stream", 55, "lost: "),
    (the_last_chunk_is_dropped_at_a_restart, "stream", 13, "lost: "),
    (rows_of_another_key_are_dropped, "stream", 84, "lost: "),
    (
        rows_of_another_key_stay_there_too,
        "stream",
        568,
        "written again|doubled|written more often|would repeat",
    ),
    (a_chunk_is_offered_twice, "group", 1, "doubled"),
    (commits_are_forgotten, "stream", 22, "would repeat"),
    (the_wrong_member_is_named, "group", 23, "expected a verdict with one of .* lags behind"),
    (the_end_of_members_is_never_known, "group", 1, "waits for ever"),
    (watermarks_overtake_rows, "stream", 0, "is late"),
    (rows_of_a_savepoint_go_to_a_server, "stream", 1767, "in spite of rows in flight"),
    (a_state_is_stored_one_call_late, "learn", 2, "wrong state"),
    (rows_leave_before_their_state_is_stored, "learn", 10, "lost: "),
    (a_state_is_stored_before_its_rows_leave, "learn", 10, "doubled"),
    (a_state_is_not_restored, "learn", 2, "wrong state"),
    (a_script_that_starts_again_gets_the_state_of_the_job, "learn", 4, "wrong state"),
    (output_leaves_before_the_save, "learn", 2, "doubled"),
    (a_failed_save_is_a_cut, "learn", 70, "wrong state"),
    (a_failed_save_at_the_end_is_no_error, "learn", 43, "in spite of .*could not be saved"),
    (unsaved_bytes_have_no_bound, "learn", 2, "in spite of .*could not be saved"),
    (rows_that_are_there_count_as_learnt, "learn", 2, "lost: "),
    (states_of_groups_are_kept, "learn", 1, "in spite of expected a script without a group"),
    (a_wait_for_a_save_is_a_standstill, "learn", 21, "no process of the group has ma"),
]
FOUND: list[tuple[Plant, str, int, str]] = [
    (
        a_script_that_starts_again_does_not_know_who_has_left,
        "stream",
        139,
        "did not report or connect",
    ),
    (
        a_script_that_starts_again_forgets_whom_it_knew,
        "stream",
        1000009,
        "the chief does not answer at host-0",
    ),
    (a_script_starts_again_after_its_group_has_ended, "stream", 36, "the chief has not answered"),
    (
        a_script_that_starts_again_dissolves_its_group,
        "stream",
        423,
        "was not complete within the 6 s",
    ),
    (a_chief_that_has_left_is_waited_for, "group", 27, "the chief has not answered"),
    (a_chief_that_has_ended_misses_nobody, "group", 73, "nobody has named"),
    (a_late_report_revives_a_member, "group", 414, "has not reported for 30 s"),
    (rows_that_wait_count_as_taken, "group", 23, "lags behind"),
    (all_complain_of_a_late_member_at_once, "group", 82, "was not complete within"),
    (
        a_lost_sample_silences_a_member,
        "group",
        341,
        "has not reported for 30 s|has not answered for 30 s",
    ),
    (a_member_that_has_ended_makes_progress_with_each_report, "stream", 743, "waits for ever"),
    (a_member_that_has_ended_makes_progress_with_each_report, "group", 428, "waits for ever"),
    (rows_that_wait_for_commits_do_not_count, "stream", 807, "waits for ever"),
    (a_script_that_has_returned_hangs, "stream", 4000730, "worker 0 .* this script lags behind"),
    (a_wait_for_rows_was_a_standstill_once_they_arrive, "stream", 83, "this script lags behind"),
    (a_script_that_commits_is_saved_with_its_next_row, "learn", 64, "waited for a save"),
    (a_failure_changes_who_hangs, "group", 3005735, "worker 0 .* this script lags behind"),
]
# Schedules that failed before others were as quick to show it, or of which the simulation expected
# too much.
FAIR: list[tuple[str, int]] = [
    ("group", 1080574),  # a member fails that has not heard of the end of another one
    ("group", 1080638),  # a script works before the process of the culprit has started
    ("stream", 2203374),  # a chief leaves while the first answer to a member is on its way
    # who has returned is only in the answer that a failing member asks for last
    ("group", 5104085),
    ("stream", 5003533),  # a process that ends itself does not end its children and connections
    ("stream", 5004059),  # a commit is in the last of several messages that are slow
]
