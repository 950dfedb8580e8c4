"""The rules of one exchange, apart from threads and gRPC: what may follow what, and what is kept meanwhile.

One side is the Flink function (`offer`, `end_input`, `take_rows`), the other the TensorFlow process (`connect`,
`next_chunk`, `add_rows`, `finish`). Nothing here waits: methods answer at once, and whoever uses a session holds its lock
and waits for a property to turn true.
"""

from __future__ import annotations

import logging
import zlib
from collections import deque
from typing import NamedTuple

from akdl.wire import (
    ENDED,
    FAILED,
    RUNNING,
    STARTING,
    Chunk,
    Cluster,
    EndOfInput,
    Failure,
    Hello,
    Outcome,
    Output,
    Phase,
    Progress,
)
from akdl.wire.serialized import serialized_chunk
from akdl.wire.service import PROTOCOL

logger = logging.getLogger(__name__)


class ProtocolError(Exception):
    """A message that may not come now."""


class _Waiting(NamedTuple):
    rows: int
    extra_input: int
    columns: bytes


class Session:
    """The exchange with one TensorFlow process.

    Args:
        attempt: Number of the Flink attempt; a process of another attempt is refused.
        queue_bytes: How many bytes of rows may wait in either direction.

    Attributes:
        status: `STARTING` until the process connects, then `RUNNING`; in the end `ENDED` or `FAILED`.
        reason: Why it is `FAILED`, in one line.
        wants_shares: The script has asked for the files of all workers.
    """

    def __init__(self, attempt: int, queue_bytes: int, name: str = "") -> None:
        self.attempt = attempt
        self._queue_bytes = queue_bytes
        self._name = name
        self.status: Phase = STARTING
        self.reason = ""
        self.wants_shares = False
        self.hello: Hello | None = None
        self.cluster: Cluster | None = None
        self.outcome: Outcome | None = None
        self.progress = Progress()
        self.rows_in = 0
        self.rows_discarded = 0
        self.rows_out = 0
        self.rows_committed = 0
        self._checksum = 0
        self._input: deque[_Waiting] = deque()
        self._input_bytes = 0
        self._is_refused = False
        self._input_ended = False
        self._end_sent = False
        self._output: deque[Output] = deque()
        self._output_bytes = 0

    # The side of the TensorFlow process.

    def connect(self, hello: Hello) -> None:
        """Accept the process, once and only of this attempt and protocol."""
        if hello.protocol != PROTOCOL:
            raise ProtocolError(
                f"process {hello.pid} uses protocol {hello.protocol}, Flink's worker uses {PROTOCOL}: the process has imported "
                "another akdl than the worker's; remove akdl from its environment, or install the same release"
            )
        if hello.attempt != self.attempt:
            raise ProtocolError(f"process {hello.pid} belongs to attempt {hello.attempt}, this is {self.attempt}")
        if self.hello is not None:
            raise ProtocolError(f"process {hello.pid} came after process {self.hello.pid} had connected")
        self.hello = hello
        self._enter(RUNNING)

    @property
    def has_chunk(self) -> bool:
        """Whether `next_chunk` has something to send."""
        return bool(self._input) or (self._input_ended and not self._end_sent)

    def next_chunk(self) -> bytes | None:
        """Return the next message `Chunk` for the process, serialized: rows, then the end mark, then nothing more."""
        if self._input:
            chunk = self._input.popleft()
            self._input_bytes -= len(chunk.columns)
            self._is_refused = False
            return serialized_chunk(*chunk)
        if self._input_ended and not self._end_sent:
            self._end_sent = True
            return Chunk(end=EndOfInput(rows=self.rows_in, checksum=self._checksum)).SerializeToString()
        return None

    @property
    def has_sent_end(self) -> bool:
        """Whether the end mark has been sent."""
        return self._end_sent

    @property
    def has_output_room(self) -> bool:
        """Whether `add_rows` may be called."""
        return self._output_bytes < self._queue_bytes

    def add_rows(self, output: Output) -> None:
        """Keep rows that the script wrote."""
        if self.outcome is not None:
            raise ProtocolError("rows came after the script had ended")
        self._output.append(output)
        self._output_bytes += output.ByteSize()
        self.rows_out += output.rows.rows

    def finish(self, outcome: Outcome) -> None:
        """Note how the script ended. Input that the script has not read is dropped and counted."""
        if self.outcome is not None:
            raise ProtocolError("the script ended twice")
        if outcome.HasField("success") and outcome.success.rows_written != self.rows_out:
            raise ProtocolError(f"the script wrote {outcome.success.rows_written} rows, {self.rows_out} arrived")
        self.progress.rows_read = max(self.progress.rows_read, outcome.success.rows_read)
        self.outcome = outcome
        self._discard_input()

    def report(self, progress: Progress) -> None:
        """Note what the script is doing."""
        if progress.report.number < self.progress.report.number:  # two threads send them, and the older one may come last
            progress.report.CopyFrom(self.progress.report)
        self.progress = progress

    # The side of the Flink function.

    def has_room(self, size: int) -> bool:
        """Whether a chunk of so many bytes may be offered now. One alone always may, however big its rows are."""
        has_room = self.outcome is not None or not self._input or self._input_bytes + size <= self._queue_bytes
        self._is_refused = not has_room
        return has_room

    def offer(self, rows: int, columns: bytes, extra_input: int = 0) -> None:
        """Take a chunk of rows for the script.

        Args:
            extra_input: 0 for the rows to work on, k for extra input k.
        """
        if self._input_ended:
            raise ProtocolError(f"{rows} rows came after the end of input: they would be lost")
        counted = 0 if extra_input else rows
        self.rows_in += counted
        if self.outcome is not None:
            self.rows_discarded += counted
            return
        self._input.append(_Waiting(rows, extra_input, columns))
        self._checksum = zlib.crc32(columns, self._checksum)
        self._input_bytes += len(columns)

    def end_input(self) -> None:
        """No more rows will be offered."""
        self._input_ended = True

    @property
    def has_ended_input(self) -> bool:
        """Whether all rows have been offered."""
        return self._input_ended

    @property
    def is_input_full(self) -> bool:
        """Whether rows wait for the script, and no more are taken, such as the chunk that `has_room` was last asked for."""
        return self._is_refused or self._input_bytes >= self._queue_bytes

    @property
    def has_rows(self) -> bool:
        """Whether `take_rows` has something to return."""
        return bool(self._output)

    def take_rows(self) -> list[Output]:
        """Return all that the script wrote since the last call."""
        taken, self._output = list(self._output), deque()
        self._output_bytes = 0
        for message in taken:
            # Not before: what the script wrote about these rows has to be on its way too.
            self.rows_committed = max(self.rows_committed, message.committed)
        return taken

    @property
    def failure(self) -> Failure | None:
        """What the script reported as its failure."""
        if self.outcome is not None and self.outcome.HasField("failure"):
            return self.outcome.failure
        return None

    def end(self) -> None:
        """The process has ended as it should."""
        self._enter(ENDED)

    def fail(self, reason: str) -> None:
        """The script or its process has failed."""
        self.reason = reason
        self._enter(FAILED)

    def _enter(self, status: Phase) -> None:
        if status != self.status:
            reason = f": {self.reason}" if self.reason else ""
            logger.debug("%s: %s -> %s%s", self._name, Phase.Name(self.status), Phase.Name(status), reason)
        self.status = status

    def _discard_input(self) -> None:
        self.rows_discarded += sum(chunk.rows for chunk in self._input if not chunk.extra_input)
        self._input.clear()
        self._input_bytes, self._is_refused = 0, False
