"""One member of a group: its TensorFlow process, the session with it, and its place among the others.

The Flink function feeds it and takes rows from it; both may wait, and while they wait they look once a second whether
the Flink task is still wanted (`alive`), whether the process still runs, and how the group is.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from akdl.process.parent import REFUSED_ROWS
from akdl.wire import ENDED, RUNNING, MemberState, Output, Report, Shares, Wishes
from bridge.codec.to_columns import to_columns
from bridge.errors.diagnosis import ECHO_S, Situation, fault_of
from bridge.errors.process_failures import comes_from_a_peer, describe_death, describe_desertion, describe_failure, paragraphs
from bridge.exceptions import TaskError
from bridge.group.addresses import Address
from bridge.group.equal_steps import Tail
from bridge.group.membership import Membership
from bridge.group.roles import tf_config
from bridge.member import registry
from bridge.member.ending import tell_end
from bridge.member.extra_input_delivery import ExtraInputs
from bridge.member.observer import Observer
from bridge.member.progress import ProgressWatch
from bridge.member.report_log import ReportLog
from bridge.member.script_process import ScriptProcess
from bridge.member.session import Session
from bridge.member.status import MemberStatus
from bridge.settings import DRAIN, OFF, PAD, REPEAT, UNCOMMITTED, GroupSettings

logger = logging.getLogger(__name__)

HEARTBEAT_S = 1.0
LAST_WORDS_S = 2.0
_REASON_CHARACTERS = 1000  # of a failure, for the others


class Member:
    """Process `index` of a group, started at once.

    Args:
        group: Unique name of the group, the same in all its members.
        alive: Asks Flink for a sign of life; raises, or does not return, when the task has ended.
    """

    def __init__(self, settings: GroupSettings, group: str, index: int, attempt: int, alive: Callable[[], None]) -> None:
        self._settings = settings
        self._index = index
        self._alive = alive
        self._changed = threading.Condition()
        self._process = ScriptProcess(settings, group, index, attempt, self._changed)
        self._session = Session(attempt, settings.queue_bytes, self._process.name)
        self._extra = ExtraInputs(settings, group, index, self._session, self._changed, self._process)
        self._membership = Membership(settings, index, attempt, self._changed, self._state)
        self._observer = Observer(settings, group, index, self._session, self._changed, lambda: self._process.resources)
        self._tail = Tail(settings.equal_steps, settings.weight_column)
        self._rows = 0  # that arrived for this member; the tail may hold some of them back
        self._input_ended = False
        self._echo_since: float | None = None
        self._stop_lock = threading.Lock()
        self._stopped = False
        self._heartbeat_due = time.monotonic() + HEARTBEAT_S
        self._heartbeat_sent: float | None = None
        self._started = time.monotonic()
        self._progress = ProgressWatch(self._started)
        self.group = group
        self.label = self._process.label
        self._reports = ReportLog(self.label, attempt, self._process.log)
        registry.add(self)
        try:
            self._process.start(self._session, self._shares, self._wishes, self._observer.note_line)
        except BaseException:
            self.stop()
            raise

    def set_cluster(self, addresses: Sequence[Address]) -> None:
        """Tell the process its TF_CONFIG, so that `main` starts, and join the group."""
        config = tf_config(self._index, self._settings.num_workers, [address.tensorflow for address in addresses])
        cluster = self._extra.settle(addresses, config)
        with self._changed:
            self._session.cluster = cluster
            self._progress = ProgressWatch(time.monotonic())
            self._changed.notify_all()
        self._membership.join(addresses, self._extra.chunk_log)
        self._extra.fetch(self._membership.take_extra_inputs)

    def feed(self, batch: pa.RecordBatch, extra_input: int = 0) -> Iterator[Output]:
        """Hand rows to the script, waiting while it is too slow, and yield what it wrote meanwhile.

        Args:
            batch: The rows, with the columns of `settings.script_schema` or of the extra input.
            extra_input: 0 for the rows to work on, k for extra input k.
        """
        if extra_input:
            yield from self._send(batch, extra_input)
            return
        with self._changed:
            self._rows += batch.num_rows
            self._observer.rows = self._rows
        for passed in self._tail.push(batch):
            yield from self._send(passed)

    def poll(self, wait: bool = False) -> Iterator[Output]:
        """Yield what the script has written; for times when there is nothing to feed, or nothing may be fed."""
        with self._changed:
            taken = self._take_rows(wait)
        self._check()
        yield from taken

    def finish(self) -> Iterator[Output]:
        """End the script's input, yield what it still writes, and return when the script and its group have ended.

        Raises:
            TaskError: The script failed, or the group did not come together or to an end.
        """
        with self._changed:
            self._input_ended = True
        self._extra.end()
        yield from self._even_out()
        yield from self._until(lambda: self._extra.is_complete or self._has_outcome)
        with self._changed:
            self._session.end_input()
        decides = self._index in self._settings.deciding
        yield from self._until(
            lambda: self._has_succeeded if decides else self._membership.group().have_ended(self._settings.deciding)
        )
        yield from self._until(lambda: self._extra.may_end(self._membership.group()))
        with self._changed:
            sizes = self._membership.group().share_sizes
        tell_end(self._process.name, self._session, self._settings, decides, sizes if self._index == 0 else ())
        self._reports.look(time.monotonic(), self.report, is_last=True)
        self._process.stop(self._settings.stop_timeout_s if self._has_outcome else 0.0)
        if self._has_outcome:
            self._check()  # the process has exited, and may have refused rows after the outcome
        with self._changed:
            self._session.end()
        self._membership.is_waiting = True
        yield from self._until(lambda: self._membership.is_over)
        self.stop()

    def stop(self) -> None:
        """End the process and remove its folder. Safe to call twice and from any thread."""
        with self._stop_lock:
            if self._stopped:
                return
            self._process.close()
            self._extra.stop()
            self._membership.leave()
            self._observer.look(is_over=True)
            registry.discard(self)
            self._stopped = True
        with self._changed:
            self._changed.notify_all()

    def error(self, what: str) -> TaskError:
        """Return an error of this process, with the last lines it printed."""
        return self._process.error(what)

    @property
    def has_returned(self) -> bool:
        """Whether the script has returned, without an error, and all that it wrote has been taken."""
        with self._changed:
            return self._has_succeeded and not self._session.has_rows

    @property
    def rows_done(self) -> int:
        """How many rows of a stream need not be given to the script again, should it fail later on."""
        session, settings = self._session, self._settings
        if self.has_returned and settings.on_return == DRAIN:
            return session.rows_in
        with self._changed:
            return session.rows_committed if settings.replay == UNCOMMITTED else session.progress.rows_read

    @property
    def report(self) -> Report:
        """What the script has last reported of its training; its `number` is 0 as long as it has reported nothing."""
        return self._session.progress.report

    @property
    def status(self) -> MemberStatus:
        """What it did when it was last looked at."""
        return self._observer.status

    def look(self) -> None:
        """Look at what it does, for its status."""
        self._observer.look()

    @property
    def unanswered_s(self) -> float:
        """For how many seconds Flink has owed an answer to a heartbeat."""
        sent = self._heartbeat_sent
        return 0.0 if sent is None else time.monotonic() - sent

    @property
    def _has_outcome(self) -> bool:
        return self._session.outcome is not None

    @property
    def _has_succeeded(self) -> bool:
        return self._has_outcome and self._session.failure is None

    # Waiting.

    def _until(self, condition: Callable[[], bool]) -> Iterator[Output]:
        """Yield what the script writes until `condition` holds; it is asked with the lock held."""
        done = False
        while not done:
            with self._changed:
                done = condition()  # before the rows are taken: none can come after the outcome
                taken = self._take_rows(wait=not done)
            self._check()
            yield from map(taken.pop, [0] * len(taken))  # nobody but the caller holds them: a row may be large

    def _take_rows(self, wait: bool) -> list[Output]:
        """Take what the script wrote, with the lock held; if that is nothing and `wait`, let any change happen first."""
        self._changed.notify_all()  # there may be new input, and there will be room for output
        if wait and not self._session.has_rows:
            self._changed.wait(HEARTBEAT_S)
        return self._session.take_rows()

    def _send(self, batch: pa.RecordBatch, extra_input: int = 0) -> Iterator[Output]:
        settings = self._settings
        schema = settings.extra_schemas[extra_input - 1] if extra_input else settings.script_schema
        columns = to_columns(batch, schema)

        def has_room() -> bool:
            # Rows of a stream may come before the last address, which would not come at all while they wait for the script.
            is_early = settings.kind == "stream" and self._session.cluster is None
            return is_early or self._session.has_room(len(columns))

        self._extra.keep(batch.num_rows, columns, extra_input)
        yield from self._until(has_room)
        with self._changed:
            self._session.offer(batch.num_rows, columns, extra_input)
            self._changed.notify_all()

    def _even_out(self) -> Iterator[Output]:
        """Wait for the sizes of all shares and make this one as long or as short as it has to be."""
        settings, membership = self._settings, self._membership
        if settings.equal_steps == OFF or self._index not in settings.fed:
            return
        membership.is_waiting = True
        yield from self._until(lambda: membership.group().input_has_ended or self._has_outcome)
        if self._has_outcome:
            return
        with self._changed:
            group = membership.group()
            sizes, own = group.share_sizes, self._rows
            giver = group.giver if settings.equal_steps in (PAD, REPEAT) else None
            membership.exchange_sample(giver, self._tail.sample)
        yield from self._until(lambda: membership.has_sample or self._has_outcome)
        if self._has_outcome:
            return
        membership.is_waiting = False
        last = self._tail.finish(sizes, own, membership.sample)
        logger.info("%s: shares of %d to %d rows", self._process.name, min(sizes), max(sizes))
        for batch in last:
            yield from self._send(batch)

    # The group.

    def _state(self) -> MemberState:
        """Return what the others should know of this member. With the lock held."""
        session = self._session
        if session.status == ENDED:
            self._progress.end()
        return MemberState(
            index=self._index,
            attempt=session.attempt,
            phase=session.status,
            failure=session.reason[:_REASON_CHARACTERS],
            # With what was added to even out the shares: for "pad" and "repeat" the largest stays the largest.
            rows=session.rows_in if session.has_ended_input else self._rows,
            input_ended=self._input_ended,
            rows_read=session.progress.rows_read,
            idle_s=self._progress.idle_s,
            waiting=session.progress.waiting or not session.has_output_room,
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

    # Failing.

    def _check(self) -> None:
        """Raise when the script has failed, the process has died or the Flink task is gone. Takes the lock for a moment."""
        if self._stopped:
            raise TaskError(f"{self._process.name}: stopped because its job has ended")
        is_due = time.monotonic() >= self._heartbeat_due
        error = None if self._session.status == ENDED else self._failed_process()
        if error is None and is_due:  # not with each chunk: what is looked for there takes seconds
            error = self._failed_group()
        if error is not None:
            self.stop()
            raise error
        if is_due:
            self._look_for_progress()
            self._reports.look(time.monotonic(), self.report)
            self._heartbeat_sent = time.monotonic()
            self._alive()
            self._heartbeat_sent = None
            self._heartbeat_due = time.monotonic() + HEARTBEAT_S

    def _failed_process(self) -> TaskError | None:
        """Return the error of the script or its process; the echo of another member's failure only after a while."""
        session, process = self._session, self._process
        # The exit is asked for first: a process reports its outcome before it exits, never after.
        status = process.exit_status
        failure = session.failure
        if failure is None and (status is None or (self._has_outcome and status != REFUSED_ROWS)):
            return self._extra.error
        if failure is not None:
            with self._changed:
                if self._membership.group().can_do_without(self._index):
                    return None
        process.wait(LAST_WORDS_S)  # it is about to exit; then all that it printed is here
        if failure is not None:
            what = describe_failure(failure)
        else:
            assert status is not None
            what = describe_death(status, session.hello is not None)
        with self._changed:
            session.fail(what.splitlines()[0])
            returned = self._membership.group().returned(self._index)
        trace = failure.traceback if failure is not None else ""
        if self._settings.size == 1 or not comes_from_a_peer(failure, process.last_lines):
            return process.error(what, trace)
        self._echo_since = self._echo_since or time.monotonic()
        if len(returned) < self._settings.size - 1 and time.monotonic() - self._echo_since < ECHO_S:
            return None
        return process.error(paragraphs(what, describe_desertion(returned)), trace, self._members())

    def _failed_group(self) -> TaskError | None:
        """Return the error of a group that does not come together, has lost its first member, or stands still."""
        session, others = self._session, self._membership
        with self._changed:
            group = self._membership.group()
            situation = Situation(
                index=self._index,
                age_s=time.monotonic() - self._started,
                is_connected=session.hello is not None,
                has_addresses=session.cluster is not None,
                is_running=session.status == RUNNING,
                has_outcome=self._has_outcome,
                hub=others.hub,
                unanswered_s=others.unanswered_s,
                last_error=others.last_error,
                failure=describe_failure(session.failure).splitlines()[0] if session.failure is not None else "",
            )
            fault = fault_of(situation, group, self._settings)
        if fault is None:
            return None
        trace = session.failure.traceback if session.failure is not None else ""
        stacks = self._process.stacks() if fault.is_standstill else ""
        return self._process.error(fault.what, trace, self._members(), stacks)

    def _look_for_progress(self) -> None:
        cpu_s = self._process.cpu_s
        with self._changed:
            self._progress.look(time.monotonic(), self._session.progress.rows_read + self._session.rows_out, cpu_s)

    def _members(self) -> str:
        """Describe all members of a group of several."""
        if self._settings.size == 1:
            return ""
        self._membership.ask_all()
        with self._changed:
            return f"--- the group ---\n{self._membership.group().describe()}"
