"""Arrival of this worker's rows from the channel, in a thread, and its end: complete, or an error.

This is the first module that a row meets in the process of a script. Its subclasses differ in the
place where chunks wait: `FileRows` keeps them on disk, because a script may read a bounded table
several times; `StreamRows` holds a few in memory, because a stream has no end.
"""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager, suppress
from typing import Callable, Iterable, Iterator

from akdl.process.channel import ChannelError
from akdl.storage.local_files import private, write_all
from akdl.wire import Chunk
from akdl.wire.serialized import Tally

# Bytes of rows that are kept of a failed script, or a single larger chunk. The row that
# failed was taken before the rows that `batches` has read ahead, and the bound exceeds these. With
# `parallel`, 64 MB may be read ahead, and a row that failed may be missing among the kept ones.
LAST_BYTES = 32 << 20


class ArrivingRows:
    """Rows that arrive while a script reads them.

    `_changed` guards all attributes and is notified of every change.
    The thread `akdl-rows` stores chunks until the end mark. Threads of the script and of TensorFlow
    read them, and the thread `akdl-progress` reads the counts. An error of the receiving thread is
    kept and raised in each reader, because a reader that saw a plain end would let the script train
    on a part of the rows.
    """

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._changed = threading.Condition()
        # Rows of the input that have arrived.
        self.count = 0
        # Rows that the script has received, or is about to read from a file.
        self.taken = 0
        # Readers that wait for rows: a number, because several threads may read at once.
        self._waiting = 0
        self._complete = False
        self._error: Exception | None = None
        # The thread starts last, since it calls `_store` of a subclass at once. Subclasses
        # therefore set their own attributes before they call this method.
        threading.Thread(
            target=self._receive, args=(chunks,), name="akdl-rows", daemon=True
        ).start()

    def is_empty(self) -> bool:
        """Wait for the first row or the end, and test if there are no rows.

        Raises:
            ChannelError: The rows broke off before the first one.
        """
        with self._changed:
            self._wait_for(lambda: self.count)
            if not self.count:
                self._check_unbroken()
            return not self.count

    def last(self) -> list[tuple[int, bytes]]:
        """Chunks that the script took last, up to `LAST_BYTES`: the number of rows, and the columns
        as received.
        """
        raise NotImplementedError

    @property
    def is_waiting(self) -> bool:
        """Test if a reader of the script waits, so that Flink is the slower side."""
        return self._waiting > 0

    def _store(self, chunk: Chunk, columns: bytes) -> None:
        """Keep the columns of a chunk, and add its rows to `count`.

        Called by the receiving thread alone. A subclass that blocks here slows Flink down, because
        the channel has a bounded number of bytes under way.
        """
        raise NotImplementedError

    def _receive(self, chunks: Iterable[Chunk]) -> None:
        """Store chunks until the end mark, and compare its count and checksum with the rows.

        A call that ends without the mark is an error, because a stream whose sender returns early
        ends in the same way.
        """
        tally = Tally()
        try:
            for chunk in chunks:
                if chunk.HasField("end"):
                    tally.check(chunk.end)
                    with self._changed:
                        self._complete = True
                        self._changed.notify_all()
                    return
                # The field is accessed once, because protobuf copies it each time.
                columns = chunk.columns
                # Rows of extra inputs are not counted: their chunks share the channel, but the end
                # mark has the number of the rows of this worker.
                tally.add(0 if chunk.input else chunk.rows, columns)
                self._store(chunk, columns)
                # A row may have a hundred megabytes, and these names would hold it until the next
                # one arrives.
                del chunk, columns
            raise ChannelError(
                f"the rows of this worker stopped after {self.count} without an end mark"
            )
        # Any error has to reach the readers, also one of the disk, because this thread has no
        # caller.
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Record an error for all readers; the first stays, because later ones follow from it."""
        with self._changed:
            self._error = self._error or error
            self._changed.notify_all()

    def _check_unbroken(self) -> None:
        if self._error is not None:
            raise ChannelError(
                f"the rows of this worker did not arrive completely: {self._error}"
            ) from self._error

    def _wait_for(self, is_there: Callable[[], object], for_script: bool = True) -> None:
        """Wait for a condition, or the end of the rows; the caller holds the lock."""
        with self._counted_as_waiting(for_script):
            self._changed.wait_for(lambda: is_there() or self._complete or self._error is not None)

    @contextmanager
    def _counted_as_waiting(self, for_script: bool = True) -> Iterator[None]:
        self._waiting += for_script
        try:
            yield
        finally:
            self._waiting -= for_script


@contextmanager
def segment_file(path: str, frames: Iterable[bytes | memoryview]) -> Iterator[str]:
    """Write frames to a new file for TensorFlow's reader, and remove the file at the end.

    TensorFlow may keep the file open after that, so callers never use a path twice.
    """
    try:
        with open(path, "wb", buffering=0, opener=private) as file:
            for part in frames:
                write_all(file, part)
                # The name would keep the frames in memory while the next ones are made, and a
                # single row may have a hundred megabytes.
                del part
        yield path
    finally:
        with suppress(FileNotFoundError):
            os.remove(path)
