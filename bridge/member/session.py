"""The exchange with one TensorFlow process as a state machine, step 4 on the path of a row.

It has neither threads nor gRPC, so each odd order of events is a test without a process, and a
simulation drives it with a seed. Methods return at once; the caller holds the lock of the session,
and waits for a property to turn true.

    STARTING --connect--> JOINING --join--> FEEDING --end_input--> TRAINING
             --report, finish--> EXPORTING --end--> ENDED
    any stage --fail--> FAILED

A stage is skipped if its event has arrived early: with the addresses first, `connect` leads to
FEEDING. No event leads back to an earlier stage.
"""

from __future__ import annotations

import enum
import logging
from collections import deque
from typing import NamedTuple

from akdl import wire
from akdl.wire.serialized import Tally, serialized_chunk
from akdl.wire.service import PROTOCOL
from bridge.member.written_rows import WrittenQueue, WrittenRows

logger = logging.getLogger(__name__)


class Stage(enum.IntEnum):
    """The stage of a member, in the order of its life."""

    STARTING = 0  # the process has not connected
    JOINING = 1  # the addresses of the group have not arrived
    FEEDING = 2
    TRAINING = 3  # all rows have arrived
    EXPORTING = 4  # the script writes a model, or has returned
    ENDED = 5  # the process has exited as it should
    FAILED = 6


class ProtocolError(Exception):
    """A message out of order. The call of the process fails with this text."""


class _Waiting(NamedTuple):
    """A chunk in the queue to the script; `extra_input` is 0 for the worker's share."""

    rows: int
    extra_input: int
    columns: bytes


class Session:
    """The exchange with one TensorFlow process: what was sent, received and acknowledged.

    A session belongs to one start of a script. Its bounds are what makes a slow side hold up the
    other one: a full queue to the script holds up Flink, a full queue to Flink holds up the script.

    Args:
        attempt: Number of the Flink task's attempt; a process of another one is refused.
        queue_bytes: Bytes of rows that may be queued in either direction.
        name: Operator and member, for the log.
        output: Queue of the rows that the script writes.
        commits: Rows are done when the script has committed them, and never because it took them.
        restarts: A script that has returned is started again with the rows that it has not done.
    """

    def __init__(
        self,
        attempt: int,
        queue_bytes: int,
        name: str = "",
        output: WrittenQueue | None = None,
        commits: bool = False,
        restarts: bool = False,
    ) -> None:
        self.attempt = attempt
        self._queue_bytes = queue_bytes
        self._name = name
        self.stage = Stage.STARTING
        # The last stage before FAILED, by which statuses show how far the member came.
        self.stage_reached = Stage.STARTING
        # One line on why the member has FAILED.
        self.reason = ""
        # True once the script has requested the files of all workers.
        self.wants_shares = False
        self.hello: wire.Hello | None = None
        self.cluster: wire.Cluster | None = None
        self.outcome: wire.Outcome | None = None
        self.progress = wire.Progress()
        # Rows from Flink. Some of them may be held back, to make shares equal.
        self.rows_arrived = 0
        # True once Flink has sent the last row.
        self.has_all_rows = False
        self.rows_in = 0
        self.rows_discarded = 0
        self.rows_out = 0
        # Rows of the input up to the last cut whose output was taken.
        self.rows_cut = 0
        self._commits = commits
        self._restarts = restarts
        self._last_cut = 0
        # True if the script reads in a way that does not show which rows it has finished.
        self._is_loose = False
        # True if the script saves a state. All that it writes by its end belongs to the last one.
        self._has_state = False
        self._tally = Tally()
        self._input: deque[_Waiting] = deque()
        self._input_bytes = 0
        self._is_refused = False
        # True once the last row has been offered, with the rows that make shares equal.
        self.has_ended_input = False
        self.has_sent_end = False
        self._output = WrittenQueue() if output is None else output

    # The side of the TensorFlow process.

    def connect(self, hello: wire.Hello) -> None:
        """Accept the process, once. Its environment may have an akdl with another protocol."""
        if hello.protocol != PROTOCOL:
            raise ProtocolError(
                f"expected a process with protocol {PROTOCOL} of Flink's worker, got process"
                f" {hello.pid} with protocol {hello.protocol}: it has imported another release of"
                " akdl. Remove akdl from its environment, or install the worker's release"
            )
        if hello.attempt != self.attempt:
            raise ProtocolError(
                f"process {hello.pid} belongs to attempt {hello.attempt}, this is attempt"
                f" {self.attempt}"
            )
        if self.hello is not None:
            raise ProtocolError(
                f"process {hello.pid} tried to connect after process {self.hello.pid}"
            )
        self.hello = hello
        self._advance()

    @property
    def phase(self) -> wire.Phase:
        return {
            Stage.STARTING: wire.STARTING,
            Stage.ENDED: wire.ENDED,
            Stage.FAILED: wire.FAILED,
        }.get(self.stage, wire.RUNNING)

    @property
    def has_chunk(self) -> bool:
        return bool(self._input) or (self.has_ended_input and not self.has_sent_end)

    def next_chunk(self) -> bytes | None:
        """Return the next serialized `Chunk` for the process: rows, then the end mark, then
        None.
        """
        if self._input:
            chunk = self._input.popleft()
            self._input_bytes -= len(chunk.columns)
            self._is_refused = False
            return serialized_chunk(*chunk)
        if self.has_ended_input and not self.has_sent_end:
            self.has_sent_end = True
            return self._tally.end().SerializeToString()
        return None

    @property
    def has_output_room(self) -> bool:
        """True until the bound is reached. One message may exceed it, so a large row passes too.

        Rows that wait for a cut do not count: a script that waited for them to leave would never
        ask for the next batch, which makes the cut.
        """
        return self._output.ready_bytes < self._queue_bytes

    def add_rows(self, output: wire.Output) -> None:
        if self.outcome is not None:
            raise ProtocolError("the process sent rows after its script had ended")
        try:
            self._output.add(output)
        except OSError as error:
            raise ProtocolError(
                "rows that wait until the script has finished their input have no room on disk:"
                f" {error}"
            ) from error
        self._is_loose |= output.loose
        self._has_state |= bool(output.state)
        self._last_cut = max(self._last_cut, output.cut)
        self.rows_out += output.rows.rows

    def finish(self, outcome: wire.Outcome) -> None:
        """Store the outcome of the script. Rows that it has not read are dropped and counted."""
        if self.outcome is not None:
            raise ProtocolError("the process reported the end of its script twice")
        # The script's side counts what it has sent, so a message that was lost on the way is an
        # error, and not a shorter result.
        if outcome.HasField("success") and outcome.success.rows_written != self.rows_out:
            raise ProtocolError(
                f"expected the {outcome.success.rows_written} rows that the script wrote, got"
                f" {self.rows_out}"
            )
        # The last report may be older than the outcome, which has the final number.
        self.progress.rows_read = max(self.progress.rows_read, outcome.success.rows_read)
        self.outcome = outcome
        has_cuts = self._commits or not (self._is_loose or self._has_state)
        comes_again = self._restarts and has_cuts and self.progress.rows_read > self._last_cut
        if outcome.HasField("success") and not comes_again:
            # A script that has returned makes no further cut, for which its last rows would wait.
            # The output of rows that it reads again is written again.
            self._output.release()
        # Rows of extra inputs are the same in all members, so they are not counted as dropped.
        self.rows_discarded += sum(chunk.rows for chunk in self._input if not chunk.extra_input)
        self._input.clear()
        self._input_bytes = 0
        self._is_refused = False
        self._advance()

    def report(self, progress: wire.Progress) -> None:
        # Two threads send reports, and the older one may arrive last.
        if progress.report.number < self.progress.report.number:
            progress.report.CopyFrom(self.progress.report)
        self.progress = progress
        self._advance()

    # The side of the Flink function.

    def join(self, cluster: wire.Cluster) -> None:
        """Store the addresses of the group, for which the process waits before it calls `main`."""
        self.cluster = cluster
        self._advance()

    def has_room(self, size: int) -> bool:
        """Return True when a chunk of this size may be offered. A single chunk always may, however
        large it is.
        """
        # After the outcome a chunk is dropped at once, so it needs no room.
        has_room = (
            self.outcome is not None
            or not self._input
            or self._input_bytes + size <= self._queue_bytes
        )
        self._is_refused = not has_room
        return has_room

    def refuse(self) -> None:
        """Note that rows wait although there may be room: the script has to commit some first."""
        self._is_refused = True

    def offer(self, rows: int, columns: bytes, extra_input: int = 0) -> None:
        """Queue a chunk, whose serialized message is `columns`; the caller has asked `has_room`."""
        if self.has_ended_input:
            raise ProtocolError(f"{rows} rows arrived after the end of input and would be lost")
        # Extra inputs are the same in all members, so they do not count as rows of the share.
        counted = 0 if extra_input else rows
        self.rows_in += counted
        if self.outcome is not None:
            self.rows_discarded += counted
            return
        self._input.append(_Waiting(rows, extra_input, columns))
        self._tally.add(counted, columns)
        self._input_bytes += len(columns)

    def end_input(self) -> None:
        self.has_ended_input = True
        self._advance()

    @property
    def is_input_full(self) -> bool:
        """The queue of the script is full, or the last chunk has to wait."""
        return self._is_refused or self._input_bytes >= self._queue_bytes

    @property
    def has_rows(self) -> bool:
        return bool(self._output)

    def take_rows(self) -> list[WrittenRows]:
        taken = self._output.take()
        for written in taken:
            # A cut counts only now, because the output before it must be on the way to Flink too.
            # Otherwise a checkpoint could drop the rows and lack their output.
            self.rows_cut = max(self.rows_cut, written.cut)
        return taken

    @property
    def rows_done(self) -> int:
        """Number of the first rows that a script need not read again after a failure."""
        return self.progress.rows_read if self._is_loose and not self._commits else self.rows_cut

    @property
    def rows_unread(self) -> int:
        """Number of rows that the script has not read; of one without cuts, or with commits, the
        rows that its process has not taken.
        """
        is_exact = not (self._is_loose or self._commits)
        return self.rows_in - (self.rows_cut if is_exact else self.progress.rows_read)

    @property
    def is_calling(self) -> bool:
        return self.progress.activity in (wire.STILL, wire.CALLING)

    @property
    def awaits_rows(self) -> bool:
        """True if the script waits for rows, or has returned before its last one has arrived.

        In both cases the member waits for Flink, which is not a standstill of the group.
        """
        return self.progress.waiting if self.outcome is None else not self.has_all_rows

    @property
    def awaits_flink(self) -> bool:
        return self.awaits_rows or not self.has_output_room

    @property
    def failure(self) -> wire.Failure | None:
        if self.outcome is not None and self.outcome.HasField("failure"):
            return self.outcome.failure
        return None

    def end(self) -> None:
        self._enter(Stage.ENDED)

    def fail(self, reason: str) -> None:
        """Enter FAILED with a reason in one line, which the other members see in their reports."""
        self.reason = reason
        self._enter(Stage.FAILED)

    def _advance(self) -> None:
        """Enter the stage that follows from the events so far, if it is a later one."""
        if self.hello is None:
            return
        stage = Stage.TRAINING if self.has_ended_input else Stage.FEEDING
        if self.cluster is None:
            stage = Stage.JOINING
        elif (
            self.outcome.HasField("success")
            if self.outcome is not None
            else self.progress.exporting
        ):
            stage = Stage.EXPORTING
        if stage > self.stage:
            self._enter(stage)

    def _enter(self, stage: Stage) -> None:
        if stage != self.stage:
            reason = f": {self.reason}" if self.reason else ""
            logger.debug("%s: %s -> %s%s", self._name, self.stage.name, stage.name, reason)
        self.stage = stage
        if stage != Stage.FAILED:
            self.stage_reached = stage
