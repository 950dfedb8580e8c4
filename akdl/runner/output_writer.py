"""`task_config.output_writer`: rows from the script to the result table.

Rows are collected into messages of about 1 MB and sent by a separate thread, so that a script
computes while its rows travel. `write` waits only if the Flink side is too slow to receive them.

Threads of the script may write at the same time: a lock protects the rows that are collected, and a
queue of a few messages is between the writers and the thread that sends.
"""

from __future__ import annotations

import itertools
import queue
import threading
from collections import deque
from typing import Any, Iterator, Mapping

import numpy as np

from akdl.process.channel import Channel, ChannelError
from akdl.rows.example_rows import ExampleRows
from akdl.wire import Output, TableColumns
from akdl.wire.cells import is_of_pandas
from akdl.wire.columns import fill_rows

MESSAGE_BYTES = 1 << 20
# Size of a message with a part of a batch; larger messages do not gain speed.
BATCH_BYTES = 2 << 20
# Limit for the messages of one batch. Further ones are made a second time later, which costs time
# but no memory.
KEPT_BYTES = 16 << 20
# A few rows are serialized to estimate how many of them fit into a message.
_SAMPLED_ROWS = 16
# At most 8 messages of 1 to 2 MB wait for the Flink side, then `write` waits.
WAITING_MESSAGES = 8


def check_example(example: object) -> None:
    """Reject anything but a `tf.train.Example`."""
    if not hasattr(example, "features"):
        raise TypeError(
            f"output_writer.write: expected a tf.train.Example, got {type(example).__name__}; "
            "write lists and arrays with output_writer.write_batch({'column': values})"
        )


def _outputs(values: Mapping[str, Any], columns: TableColumns) -> Iterator[Output]:
    """Messages of a few MB with the rows of a batch.

    A smaller unit takes less memory at each step on the way.

    All messages are made before the first is sent: a batch is written as a whole or not at all.
    Messages beyond `KEPT_BYTES` are dropped and made again later.
    """
    values = {name: _sliceable(cells) for name, cells in values.items()}
    kept: deque[Output] = deque()
    size, later = 0, None
    for start, output in _parts(values, columns, 0):
        # Once a message is dropped, all later ones are too, so that their order stays. They are
        # still made, because their errors have to be raised now.
        if later is None and size < KEPT_BYTES:
            kept.append(output)
            size += output.ByteSize()
        elif later is None:
            later = start
    again = (
        (output for _, output in _parts(values, columns, later)) if later is not None else iter(())
    )
    # Both parts are lazy: the second one is made when the first one has been sent.
    return itertools.chain(_emptied(kept), again)


def _parts(
    values: Mapping[str, Any], columns: TableColumns, start: int
) -> Iterator[tuple[int, Output]]:
    can_be_cut = all(
        isinstance(cells, (list, tuple)) or getattr(cells, "ndim", 0) for cells in values.values()
    )
    sizes = {len(cells) for cells in values.values()} if can_be_cut else set()
    rows = max(sizes) if len(sizes) == 1 else 0
    # The batch is empty or invalid. As one part it gives its own error.
    if rows == 0:
        yield 0, _output(values, columns)
        return

    def part(start: int, end: int) -> Output:
        return _output({name: cells[start:end] for name, cells in values.items()}, columns)

    step = rows
    if rows > _SAMPLED_ROWS:
        # The size of the first rows stands for the size of all.
        step = max(1, BATCH_BYTES * _SAMPLED_ROWS // max(1, part(0, _SAMPLED_ROWS).ByteSize()))
    while start < rows:
        end = min(start + step, rows)
        output = part(start, end)
        # These rows are larger than the sampled ones, so the step was too long.
        if output.ByteSize() > 2 * BATCH_BYTES and end - start > 1:
            step = max(1, step // 2)
            continue
        yield start, output
        start = end


def _emptied(outputs: deque[Output]) -> Iterator[Output]:
    """Yield messages and drop each one, so that its memory is free once it is sent."""
    while outputs:
        yield outputs.popleft()


def _sliceable(cells: object) -> Any:
    """Return tensors as numpy arrays, since slices of a numpy array are views."""
    if isinstance(cells, np.ndarray) or not hasattr(cells, "__array__"):
        return cells
    # An array of pandas keeps its nulls, and is cut by place and not by label.
    if is_of_pandas(cells):
        return getattr(cells, "array", cells)
    return cells.numpy() if hasattr(cells, "numpy") else np.asarray(cells)


def _output(values: Mapping[str, Any], columns: TableColumns) -> Output:
    output = Output()
    fill_rows(output.rows, values, columns)
    return output


class OutputWriter:
    """Sends rows of the operator's `outputSchemaStr`. Thread-safe.

    Args:
        channel: The channel to the bridge.
        columns: The columns of `outputSchemaStr`.
        wait_s: Longest time in seconds that a row waits for other rows of its message; None for no
            limit.

    Attributes:
        rows_written: Rows accepted so far.
        has_refused: A call tried to write after the writer was closed.
    """

    def __init__(
        self, channel: Channel, columns: TableColumns, wait_s: float | None = None
    ) -> None:
        self._wait_s = wait_s
        self._channel = channel
        self._columns = list(columns)
        self._lock = threading.Lock()
        self._examples = ExampleRows(columns)
        self.rows_written = 0
        self._messages: queue.Queue[Output | None] = queue.Queue(WAITING_MESSAGES)
        self._sender: threading.Thread | None = None
        self._error: Exception | None = None
        self._closed = False
        # Numbers of finished rows: of the latest cut, and of the latest one that a message carries.
        self._cut = self._sent_cut = 0
        self.has_refused = False

    def write(self, example: object) -> None:
        """Send one row.

        Args:
            example: A `tf.train.Example` whose features are named and typed like the columns of
                `outputSchemaStr`: int64_list for BOOLEAN and integers, float_list for FLOAT and
                DOUBLE, bytes_list for strings and bytes. A scalar column takes exactly one value. A
                column without a feature becomes null.

        Raises:
            TypeError: Not an Example, or a feature of another kind than its column's.
            ValueError: An unknown column, a wrong number of values, or null in a column that is NOT
                NULL.
            RuntimeError: `main` has returned.
            ChannelError: The Flink side has ended.
        """
        check_example(example)
        with self._lock:
            self._check_open()
            rows = self._examples
            # The row is checked before it is counted, so that a refused row changes nothing.
            cells = rows.read(example, self.rows_written)
            # A column of a message has either numbers or strings, so a row in the other form begins
            # the next message.
            if not rows.fits(cells):
                self._flush()
            rows.append(cells)
            self.rows_written += 1
            if rows.size >= MESSAGE_BYTES:
                self._flush()
            # The sender's thread sends the row when `wait_s` has passed, so it has to run although
            # no message is queued.
            elif self._wait_s is not None:
                self._start_sender()

    def write_batch(self, values: Mapping[str, Any]) -> None:
        """Send many rows at once, column by column; many times faster than `write`.

        Args:
            values: Column name to an array of shape [rows], for an ARRAY column of shape [rows, n],
                a list of lists or a `tf.SparseTensor`, whose empty rows are empty arrays. numpy
                arrays, lists, eager tensors and frames and columns of pandas are accepted. None,
                masked cells and nulls of pandas' own types such as Int64 become null; a missing
                column is null in every row.

        Raises:
            ValueError: An unknown column, or columns of different length.
            TypeError: Values that do not fit the column's type.
            RuntimeError: `main` has returned.
            ChannelError: The Flink side has ended.
        """
        # Every message is made before the first one is sent, so a batch with an error in its last
        # row writes nothing.
        outputs = _outputs(values, self._columns)
        with self._lock:
            self._check_open()
            # Rows of earlier calls of `write` are sent first, so that rows keep their order.
            self._flush()
            for output in outputs:
                self.rows_written += output.rows.rows
                self._send(output)

    def cut(self, rows: int, state: bytes = b"", at_once: bool = False) -> None:
        """Make a cut: the script has finished so many rows of its input, and has written all of
        their output before.

        Args:
            rows: Rows of the input, counted from the script's start.
            state: The state of the script at this cut.
            at_once: Send the cut now; else it may wait for further rows, like a row.

        Raises:
            RuntimeError: `main` has returned.
            ChannelError: The Flink side has ended.
        """
        with self._lock:
            if self._closed and not at_once:
                # TensorFlow may still ask for a batch after `main` has returned. Unlike a commit or
                # a row that comes too late, that is not a mistake of the script.
                return
            self._check_open()
            # Cuts arrive from two threads, see `akdl.runner.cuts`, and a later one covers an
            # earlier one.
            if rows <= self._cut:
                return
            self._flush()
            self._cut = rows
            if state or at_once:
                self._send(Output(state=state))
            else:
                self._start_sender()

    def loosen(self) -> None:
        """Say that nothing is known of the rows that the script has finished from here on."""
        with self._lock:
            if not self._closed:
                self._send(Output(loose=True))

    def flush(self) -> None:
        """Send collected rows without waiting for their arrival."""
        with self._lock:
            self._flush()

    def close(self) -> None:
        """Send collected rows, reject further ones, and wait for the Flink side.

        It returns when the Flink side has received everything. Safe to call twice.

        Raises:
            ChannelError: The Flink side has ended.
        """
        with self._lock:
            # From here on no call adds rows, so that the message below is the last one. The last
            # cut has no rows behind it that it could travel with.
            self._closed = True
            if self._has_more():
                self._send(self._gathered())
            sender, self._sender = self._sender, None
            if sender is not None:
                # None ends the sender once it has sent what is queued before it.
                self._put(None)
        # The sender is joined without the lock, so that a thread that writes meanwhile is refused
        # at once instead of waiting.
        if sender is not None:
            sender.join()
        if self._error is not None:
            raise self._error

    def _check_open(self) -> None:
        if self._closed:
            self.has_refused = True
            raise RuntimeError(
                "output_writer: the script's main has returned, so rows written now would be lost:"
                " let main wait for its threads, for example with thread.join()"
            )

    def _has_more(self) -> bool:
        """True if rows or a cut are in no message yet."""
        return bool(self._examples) or self._cut > self._sent_cut

    def _flush(self) -> None:
        if self._examples:
            self._send(self._gathered())

    def _send(self, message: Output) -> None:
        self._mark(message)
        self._start_sender()
        self._put(message)

    def _start_sender(self) -> None:
        if self._sender is None:
            self._sender = threading.Thread(target=self._drain, name="akdl-output", daemon=True)
            self._sender.start()

    def _put(self, message: Output | None) -> None:
        """Queue a message; wait while the queue is full, and raise the sender's error.

        The wait has a deadline, because a sender that has failed takes no message from the queue
        any more.
        """
        while True:
            if self._error is not None:
                raise self._error
            try:
                return self._messages.put(message, timeout=0.5)
            # The sender may have failed meanwhile, so the loop looks for its error.
            except queue.Full:
                continue

    def _drain(self) -> None:
        """Send queued messages until the end; the sender's thread runs this."""
        try:
            self._channel.write(self._queued())
        # Any thread that writes next gets the error, see `_put`.
        except ChannelError as error:
            self._error = error

    def _queued(self) -> Iterator[Output]:
        """Yield queued messages; after `wait_s` without one, the rows that are collected.

        gRPC iterates over this in the sender's thread. None in the queue ends it.
        """
        while True:
            try:
                message = self._messages.get(timeout=self._wait_s)
            except queue.Empty:
                message = self._waited()
                if message is None:
                    continue
            if message is None:
                return
            yield message

    def _waited(self) -> Output | None:
        """Message with the collected rows.

        The result is None if it would be empty, or another message is queued.
        """
        # The holder of the lock may wait for room in the queue, which only this thread makes:
        # waiting here would be a deadlock.
        if not self._lock.acquire(blocking=False):
            return None
        try:
            # A message in the queue has older rows, and has to leave first.
            if not self._has_more() or not self._messages.empty():
                return None
            return self._mark(self._gathered())
        finally:
            self._lock.release()

    def _mark(self, message: Output) -> Output:
        """Add a new cut, which precedes the rows of this message, with the lock held."""
        if self._cut > self._sent_cut:
            message.cut = self._sent_cut = self._cut
        return message

    def _gathered(self) -> Output:
        output = Output()
        self._examples.take(output.rows)
        return output
