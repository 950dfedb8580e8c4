"""One member of a group: its TensorFlow process, the session with it, and its membership.

The Flink function calls `feed`, `poll` and `finish`, and blocks in them. gRPC's threads carry the
messages of the process, and one thread reports to member 0. The lock of `changed` guards session
and known states; slow calls are made without it, because no report and no row could pass meanwhile.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence

import pyarrow as pa

from akdl.process.parent import REFUSED_ROWS
from akdl.wire import RUNNING, MemberState, Report, Shares, Wishes
from bridge.codec.to_columns import to_columns
from bridge.exceptions import TaskError
from bridge.group.addresses import Address, tf_config
from bridge.group.diagnosis import ECHO_S, Situation, fault_of
from bridge.group.equal_steps import Tail
from bridge.group.membership import Membership
from bridge.member import registry, spare
from bridge.member.extra_input_delivery import ExtraInputs
from bridge.member.observer import Observer, ProgressWatch
from bridge.member.script_process import (
    ScriptProcess,
    comes_from_a_peer,
    describe_death,
    describe_desertion,
    describe_failure,
    paragraphs,
    report_end,
)
from bridge.member.session import Session, Stage
from bridge.member.written_rows import WrittenQueue, WrittenRows
from bridge.settings import DRAIN, OFF, PAD, REPEAT, RESTART, UNCOMMITTED, GroupSettings

logger = logging.getLogger(__name__)

HEARTBEAT_S = 1.0
LAST_OUTPUT_S = 2.0
# Characters of a failure in the reports to other members.
_REASON_CHARACTERS = 1000


class Member:
    """Process `index` of a group, started at once; `alive` raises, or does not return, when the
    Flink task has ended.

    A script that starts again in the same attempt continues with what the member `before` knew of
    the group. With `holds_output`, written rows leave up to the latest cut only.
    """

    def __init__(
        self,
        settings: GroupSettings,
        group: str,
        index: int,
        attempt: int,
        alive: Callable[[], None],
        before: Member | None = None,
        holds_output: bool = False,
    ) -> None:
        self._settings = settings
        self._index = index
        self._alive = alive
        self._changed = threading.Condition()
        self._process = ScriptProcess(settings, group, index, attempt, self._changed)
        self._session = Session(
            attempt,
            settings.queue_bytes,
            self._process.name,
            WrittenQueue(holds_output, self._process.private_folder),
            settings.replay == UNCOMMITTED,
            settings.on_return == RESTART,
        )
        self._extra = ExtraInputs(self._session, self._process)
        known = None if before is None else before._membership
        self._membership: Membership = Membership(
            settings, index, attempt, self._changed, self._state, known
        )
        self._started = time.monotonic()
        self.observer = Observer(self._session, self._process)
        self._tail = Tail(settings.equal_steps, settings.weight_column)
        self._echo_since: float | None = None
        self.addressed: Collection[int] = ()  # members whose addresses have arrived
        self._stop_lock = threading.Lock()
        self._is_stopping = self._stopped = False
        self._heartbeat_due = time.monotonic() + HEARTBEAT_S
        self._heartbeat_sent: float | None = None
        self.group = group
        self.label = self._process.label
        # A job that ends during the start stops its members by the registry.
        registry.add(self)
        try:
            self._process.start(self._session, self._shares, self._wishes, self.observer.note_line)
        except BaseException:
            self.stop()
            raise
        finally:
            # A stop during the start may have found no process or server to end.
            if self._is_stopping:
                with self._stop_lock:
                    self._process.close()

    def set_cluster(self, addresses: Sequence[Address], state: bytes = b"") -> None:
        config = tf_config(
            self._index, self._settings.num_workers, [address.tensorflow for address in addresses]
        )
        cluster = self._extra.settle(addresses, config)
        cluster.state = state
        # The times are read without the lock: all processes below the script's are looked at, and
        # no row could pass meanwhile.
        own_s, _ = self._process.child.cpu_times
        with self._changed:
            self._session.join(cluster)
            # The wait for the addresses is not a standstill, and the processor time so far, as of
            # imports, does not mean that the script spins.
            self.observer.progress = ProgressWatch(time.monotonic(), own_s)
            self._changed.notify_all()
        self._membership.join(addresses, self._extra.chunk_log)
        self._extra.fetch(self._membership.take_extra_inputs)

    def feed(self, batch: pa.RecordBatch, extra_input: int = 0) -> Iterator[WrittenRows]:
        """Pass rows (or rows of extra input k) to the script, and wait while its queue is full.

        It yields written rows meanwhile: a script whose own rows find no room reads no further.
        """
        if extra_input:
            yield from self._send(batch, extra_input)
            return
        with self._changed:
            # `Tail` may hold some of these rows back, but shares are compared by all that have
            # arrived.
            self._session.rows_arrived += batch.num_rows
        for passed in self._tail.push(batch):
            yield from self._send(passed)

    def poll(self, has_to_commit: bool = False) -> Iterator[WrittenRows]:
        """Yield what the script has written; wait for some if it `has_to_commit` before it gets
        more rows.
        """
        with self._changed:
            if has_to_commit:
                self._session.refuse()
            taken = self._take_rows(wait=has_to_commit)
        self._check()
        yield from taken

    def end_input(self) -> Iterator[WrittenRows]:
        """End the script's input, yield what it still writes, and return when it or the script that
        it serves has returned.
        """
        with self._changed:
            self._session.has_all_rows = True
        self._extra.end()
        # The rows that make shares equal come first: `_deliver_extra_inputs` ends the session's
        # input, after which it takes no row.
        yield from self._even_out()
        yield from self._deliver_extra_inputs()
        yield from self._await_outcome()

    def finish(self) -> Iterator[WrittenRows]:
        """Do as `end_input`, and return when the process and its group have ended."""
        yield from self.end_input()
        # The next process imports TensorFlow while this one ends.
        # A program with one script often has another.
        spare.prepare(self._settings)
        self._close_session()
        self._membership.is_waiting = True
        yield from self._until(lambda: self._membership.is_over)
        self.stop()

    def end_process(self) -> None:
        """Let the process end in time, and raise if it wrote rows after its script had returned.

        These rows were refused, and its exit status shows it.
        """
        self._process.stop(self._settings.stop_timeout_s)
        self._check()

    def stop(self) -> None:
        """End the process, then its server, and leave the group. Safe to call twice, in any thread.

        A function that waits in this member notices it within a second, and raises a TaskError.
        """
        self._is_stopping = True
        # This lock is apart from `_changed`, because a process may take seconds to end, and its
        # threads need `_changed` for that. A second caller waits here until all of it is done.
        with self._stop_lock:
            if self._stopped:
                return
            self._process.close()
            self._extra.stop()
            self._membership.leave()
            self.observer.look(is_over=True)
            registry.discard(self)
            self._stopped = True
        with self._changed:
            self._changed.notify_all()

    def error(self, what: str) -> TaskError:
        return self._process.error(what)

    @property
    def has_returned(self) -> bool:
        """The script has returned without an error, and all its rows have been taken."""
        with self._changed:
            return self._has_succeeded and not self._session.has_rows

    @property
    def rows_done(self) -> int:
        """Number of a stream's first rows that need not be replayed if the script fails later."""
        if self.has_returned and self._settings.on_return == DRAIN:
            return self._session.rows_in
        with self._changed:
            return self._session.rows_done

    @property
    def rows_unread(self) -> int:
        with self._changed:
            return self._session.rows_unread

    @property
    def report(self) -> Report:
        return self._session.progress.report

    @property
    def unanswered_s(self) -> float:
        return 0.0 if (sent := self._heartbeat_sent) is None else time.monotonic() - sent

    @property
    def _has_outcome(self) -> bool:
        return self._session.outcome is not None

    @property
    def _has_succeeded(self) -> bool:
        return self._has_outcome and self._session.failure is None

    @property
    def _decides(self) -> bool:
        return self._index in self._settings.deciding

    # The steps of `finish`.

    def _even_out(self) -> Iterator[WrittenRows]:
        """Wait for the sizes of all shares, and make this one as long or as short as `equal_steps`
        requires.
        """
        settings = self._settings
        membership = self._membership
        if settings.equal_steps == OFF or self._index not in settings.fed:
            return
        membership.is_waiting = True
        yield from self._until(lambda: membership.group().input_has_ended or self._has_outcome)
        with self._changed:
            group = membership.group()
            sizes = group.share_sizes
            own = self._session.rows_arrived
            # "drop" adds no rows, so it needs no sample.
            giver = group.giver if settings.equal_steps in (PAD, REPEAT) else None
        membership.exchange_sample(giver, self._tail.sample)
        yield from self._until(lambda: membership.has_sample or self._has_outcome)
        membership.is_waiting = False
        if self._has_outcome:
            return
        logger.info("%s: shares of %d to %d rows", self._process.name, min(sizes), max(sizes))
        for batch in self._tail.finish(sizes, own, membership.sample):
            yield from self._send(batch)

    def _deliver_extra_inputs(self) -> Iterator[WrittenRows]:
        yield from self._until(lambda: self._extra.is_complete or self._has_outcome)
        with self._changed:
            self._session.end_input()

    def _await_outcome(self) -> Iterator[WrittenRows]:
        """Wait until the script, or the script that this one serves, has returned, and this
        member's files are not needed.
        """
        membership = self._membership
        deciding = self._settings.deciding
        yield from self._until(
            lambda: (
                self._has_succeeded if self._decides else membership.group().have_ended(deciding)
            )
        )
        yield from self._until(lambda: self._extra.may_end(membership.group()))

    def _close_session(self) -> None:
        with self._changed:
            sizes = self._membership.group().share_sizes if self._index == 0 else []
        report_end(self._process.name, self._session, self._settings, self._decides, sizes)
        self.observer.log_report(is_last=True)
        if self._has_outcome:
            self.end_process()
        else:
            # It serves others until it is stopped, so it would not end in time.
            self._process.stop(0.0)
        with self._changed:
            self._session.end()

    # Waiting.

    def _until(self, condition: Callable[[], bool]) -> Iterator[WrittenRows]:
        """Yield what the script writes until `condition`, evaluated with the lock held, is true."""
        done = False
        while not done:
            with self._changed:
                # The condition is evaluated before the rows are taken. If it is an outcome, these
                # rows are the last ones.
                done = condition()
                taken = self._take_rows(wait=not done)
            self._check()
            yield from taken

    def _take_rows(self, wait: bool) -> list[WrittenRows]:
        """Take what the script wrote, with the lock held; without rows, wait for a change first if
        `wait` is set.
        """
        # gRPC's threads wait for new input, and for room for output, which there is once the rows
        # are taken.
        self._changed.notify_all()
        if wait and not self._session.has_rows:
            # The wait ends at the next heartbeat at the latest, since `_check` has to run although
            # nothing changes.
            self._changed.wait(HEARTBEAT_S)
        return self._session.take_rows()

    def _send(self, batch: pa.RecordBatch, extra_input: int = 0) -> Iterator[WrittenRows]:
        settings = self._settings
        schema = settings.extra_schemas[extra_input - 1] if extra_input else settings.script_schema
        columns = to_columns(batch, schema, settings.operator)

        def has_room() -> bool:
            # Rows of a stream may precede the last address. Waiting for the script here would keep
            # the address from arriving.
            is_early = settings.kind == "stream" and self._session.cluster is None
            return is_early or self._session.has_room(len(columns))

        # The chunk is kept before this member's script has room, because other hosts have a speed
        # of their own.
        self._extra.keep(batch.num_rows, columns, extra_input)
        yield from self._until(has_room)
        with self._changed:
            self._session.offer(batch.num_rows, columns, extra_input)
            self._changed.notify_all()

    # The group.

    def _state(self) -> MemberState:
        """Return this member's state for the other members. With the lock held."""
        session = self._session
        if session.stage >= Stage.ENDED:
            self.observer.progress.end()
        return MemberState(
            index=self._index,
            attempt=session.attempt,
            phase=session.phase,
            failure=session.reason[:_REASON_CHARACTERS],
            # Including rows added to make shares equal: for "pad" and "repeat" the largest share
            # stays the largest.
            rows=session.rows_in if session.has_ended_input else session.rows_arrived,
            input_ended=session.has_all_rows,
            rows_read=session.progress.rows_read,
            idle_s=self.observer.progress.idle_s,
            spinning=self.observer.progress.is_spinning,
            calling=session.is_calling,
            waiting=session.awaits_flink,
            input_full=session.is_input_full,
            dataset_file=session.progress.dataset_file,
            dataset_complete=session.progress.dataset_complete,
            wants_files=session.wants_shares,
        )

    def _shares(self) -> Shares | None:
        self._membership.is_waiting = (shares := self._membership.group().shares) is None
        return shares

    def _wishes(self) -> Wishes:
        return self._membership.group().wishes(self._index)

    # Failures.

    def _check(self) -> None:
        """Raise when the script has failed, the process has died or the Flink task has ended. Takes
        the lock briefly.
        """
        if self._stopped:
            raise TaskError(f"{self._process.name}: stopped because its job has ended")
        is_due = time.monotonic() >= self._heartbeat_due
        # After the regular end of a process its exit is not a failure.
        error = None if self._session.stage == Stage.ENDED else self._failed_process()
        # Faults of a group take seconds to show, so they are not looked for with each chunk.
        if error is None and is_due:
            error = self._failed_group()
        if error is not None:
            # In a local run the next attempt prints this error, because a program does not see why
            # Flink restarts a stream.
            registry.note_failure(self.group, self._session.attempt, str(error))
            self.stop()
            raise error
        if is_due:
            self._look_for_progress()
            self.observer.log_report()
            # The registry reads this time, because the call below may hang when a job has ended.
            self._heartbeat_sent = time.monotonic()
            self._alive()
            self._heartbeat_sent = None
            self._heartbeat_due = time.monotonic() + HEARTBEAT_S

    def _failed_process(self) -> TaskError | None:
        """Return the error of the script or its process; the echo of another member's failure only
        after a while.
        """
        session = self._session
        child = self._process.child
        # The status is read before the outcome, because a process reports its outcome before it
        # exits. In the other order, a process that does both in between would seem to have died
        # without one.
        status = child.exit_status
        failure = session.failure
        if failure is None and (status is None or (self._has_outcome and status != REFUSED_ROWS)):
            return self._extra.error
        if failure is not None:
            with self._changed:
                if self._membership.group().can_do_without(self._index):
                    return None
        # The output is complete once the process has exited, and its last lines are in the error.
        child.wait(LAST_OUTPUT_S)
        if failure is not None:
            what = describe_failure(failure)
        else:
            assert status is not None
            what = describe_death(status, session.hello is not None, self._process.lines_before())
        with self._changed:
            session.fail(what.splitlines()[0])
            returned = self._membership.group().returned(self._index)
        trace = failure.traceback if failure is not None else ""
        if self._settings.size == 1 or not comes_from_a_peer(failure, child.last_lines):
            return self._process.error(what, trace)
        self._echo_since = self._echo_since or time.monotonic()
        # Once all other scripts have returned, no other member can report the cause.
        if len(returned) < self._settings.size - 1 and time.monotonic() - self._echo_since < ECHO_S:
            return None
        members = self._members()
        with self._changed:
            # Reports may have been lost for a while, so the last answer may name further members.
            returned = self._membership.group().returned(self._index)
        return self._process.error(paragraphs(what, describe_desertion(returned)), trace, members)

    def _failed_group(self) -> TaskError | None:
        session = self._session
        membership = self._membership
        failure = session.failure
        with self._changed:
            situation = Situation(
                index=self._index,
                age_s=time.monotonic() - self._started,
                is_connected=session.hello is not None,
                has_addresses=session.cluster is not None,
                unaddressed=[
                    index for index in range(self._settings.size) if index not in self.addressed
                ],
                is_running=session.phase == RUNNING,
                has_outcome=self._has_outcome,
                hub=membership.hub,
                unanswered_s=membership.unanswered_s,
                last_error=membership.last_error,
                failure=describe_failure(failure).splitlines()[0] if failure is not None else "",
            )
            fault = fault_of(situation, membership.group(), self._settings)
        if fault is None:
            return None
        trace = failure.traceback if failure is not None else ""
        # This may take two seconds, and `place_of_abort` as well, so both are without the lock.
        stacks = self._process.stacks() if fault.is_standstill else ""
        what = fault.what
        if not situation.is_connected:
            what += self._process.child.place_of_abort() + self._process.lines_before()
        return self._process.error(what, trace, self._members(), stacks)

    def _look_for_progress(self) -> None:
        # As in `set_cluster`, the times are read without the lock.
        own_s, children_s = self._process.child.cpu_times
        with self._changed:
            session = self._session
            progress = self._session.progress
            moved = progress.rows_read + session.rows_out + progress.report.number
            # Before the process connects, startTimeout limits the wait and not stallTimeout.
            waits = session.awaits_flink or session.hello is None
            self.observer.progress.look(
                time.monotonic(), moved, progress.worked_s + children_s, own_s, waits
            )

    def _members(self) -> str:
        if self._settings.size == 1:
            return ""
        # The progress of other members does not arrive without a request.
        self._membership.ask_all()
        with self._changed:
            return f"--- the group ---\n{self._membership.group().describe()}"
