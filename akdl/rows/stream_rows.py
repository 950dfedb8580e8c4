"""Rows of a stream between the channel and a script: each row is given once, and few are held.

TensorFlow's own TFRecord reader gets the rows as small files that are removed after reading, so
that no row is touched in Python and memory stays constant for weeks. Rows that the script has not
finished are kept in Flink's state as well, which repeats them after a failure; so the counts here
decide what is repeated.

Rows of a bounded table that a script reads once (`readOnce`) wait in Flink too, and are not stored
on disk. `readOnce` is a parameter of the operator, because the choice has to be made before the
first row arrives. A second pass, and whatever needs all rows at once, is an error that names the
remedy.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from typing import Callable, Iterable, Iterator, NamedTuple

import numpy as np

from akdl.rows.arriving_rows import LAST_BYTES, ArrivingRows, segment_file
from akdl.rows.examples import ExampleEncoder
from akdl.wire import Chunk, Progress, Rows, TableColumns

logger = logging.getLogger(__name__)

# Bytes of rows that wait here for the script, or a single larger chunk. This is about 15 % faster
# than 1 MB.
HELD_BYTES = 4 << 20

_REMEDY = "remove readOnce from the operator, which then keeps the rows on disk"


class Held(NamedTuple):
    rows: int
    columns: bytes


class StreamRows(ArrivingRows):
    """This worker's rows, read from the channel by a separate thread at the script's pace.

    `akdl.runner.cuts` sets three functions, which receive how far the script is. `on_finished` gets
    the number of rows that the script received before its dataset was asked for more, in the thread
    that reads. `on_reached` gets the same number, batch by batch, in the thread of a script that
    iterates over `batches` itself. `on_loose` is called where neither is known: TensorFlow may keep
    rows of `segments`, and of a shuffled dataset, as long as it likes.
    """

    is_stream = True
    is_once = False

    def __init__(
        self,
        folder: str,
        chunks: Iterable[Chunk],
        columns: TableColumns,
        exact_doubles: bool = False,
        time_column: str = "",
    ) -> None:
        self.on_finished: Callable[[int], None] | None = None
        self.on_reached: Callable[[int], None] | None = None
        self.on_loose: Callable[[], None] | None = None
        self.is_loose = False
        # Rows of whole batches, or of chunks, that were passed to the dataset.
        self.given = 0
        # Bytes of the chunks that `taken` counts.
        self.taken_bytes = 0
        self.batch_size = 0
        # Rows of the batches that a script has received which iterates itself; None where it does
        # not.
        self.handed: int | None = None
        # The column of the event time, for `time_of`; "" where it is not needed.
        self._time_column = time_column
        # For each decoded chunk: number of rows up to its end, and its latest event time.
        self._times: deque[tuple[int, int]] = deque()
        self._latest = self._decoded = 0
        # True to hold the chunks that `last` returns, which nothing else needs once they are taken.
        self.keeps_last = False
        self._last: deque[Held] = deque()
        self._last_bytes = 0
        self._folder = folder
        self._encoder = ExampleEncoder(columns, exact_doubles)
        self._held: list[Held] = []
        self._held_bytes = 0
        # Rows of the chunks that the dataset has read completely. `passed` follows `taken` with the
        # next request, because until then the reader may still be inside of the last chunk.
        self.passed = 0
        self._finished = 0
        self._reported = 0
        self._scanned = False
        self._warned = False
        super().__init__(chunks)

    def length_beforehand(self) -> int | None:
        """Return None: waiting for the last row of a stream would never end."""
        return None

    def progress(self) -> Progress:
        with self._changed:
            # Noted under the lock: rows that are taken from now on wake `wait_for_progress` again.
            self._reported = self.taken
            return Progress(rows_read=self.taken, waiting=self.is_waiting)

    def wait_for_progress(self, timeout_s: float) -> None:
        """Wait until the script has taken rows since the last `progress`, or for so many seconds.

        The bridge keeps the rows of a stream in Flink's state until the script has received them,
        so a stream reports at once where a table reports at intervals.
        """
        with self._changed:
            self._changed.wait_for(lambda: self.taken != self._reported, timeout_s)

    def wait_for_batch(self, after: int, timeout_s: float) -> bool:
        """Wait until the batch behind so many rows has arrived, or the stream has ended; return
        False after the timeout.

        It also returns where the rows that wait here are as many as there is room for.
        """
        with self._changed, self._counted_as_waiting():
            return self._changed.wait_for(
                lambda: (
                    self.count - after >= max(1, self.batch_size)
                    or self._held_bytes >= HELD_BYTES
                    or self._complete
                    or self._error is not None
                ),
                timeout_s,
            )

    def file(self) -> str:
        raise RuntimeError("rows of a stream are not kept in files: read them from dataset_fn()")

    def length(self) -> int:
        raise RuntimeError(
            "the number of rows in a stream is not known: read them from dataset_fn()"
        )

    def last(self) -> list[tuple[int, bytes]]:
        """Return the chunks that `_take` kept, which exist with `keeps_last` only."""
        return list(self._last)

    @property
    def received(self) -> int:
        """Number of rows that the script has in its hands, or has finished.

        TensorFlow takes several batches at once for a dataset that was derived from `batches`, and
        the script may have returned before it had all of them.
        """
        handed = 0 if self.handed is None else min(self.handed, self.given)
        return max(handed, self._finished)

    def segments(self) -> Iterator[str]:
        self.loosen()
        # Names are never used twice, because TensorFlow may still read a file that is removed.
        for number, chunks in enumerate(self._scan()):
            frames = (self._encoder.frames(Rows.FromString(chunk.columns)) for chunk in chunks)
            with segment_file(
                os.path.join(self._folder, f"rows-{number}.tfrecords"), frames
            ) as path:
                yield path

    def columns(self, finishes: bool = True) -> Iterator[Rows]:
        # With `finishes`, a chunk counts as finished when the next one is requested; else the
        # caller calls `finish`. Chunks that still wait are not taken: a failure repeats them, and
        # the number of rows shows which process lags behind.
        for (chunk,) in self._scan(1):
            self.given += chunk.rows if finishes else 0
            rows = Rows.FromString(chunk.columns)
            self._decoded += rows.rows
            for column in rows.columns:
                if column.name == self._time_column and rows.rows:
                    latest = int(np.frombuffer(column.values, np.int64).max())
                    self._times.append((self._decoded, latest))
            yield rows
            del rows
            if finishes:
                self.finish(chunk.rows)

    def time_of(self, rows: int) -> int:
        """Return the latest event time of the first rows, in microseconds since 1970; 0 where there
        is none.

        Chunks are counted as wholes, so it may be a little too early. The numbers of rows must not
        decrease.
        """
        while self._times and self._times[0][0] <= rows:
            self._latest = max(self._latest, self._times.popleft()[1])
        return self._latest

    def finish(self, rows: int) -> None:
        """Record that the script received so many more rows and its dataset was asked for the next
        ones.
        """
        self._finished += rows
        if self.on_finished is not None:
            self.on_finished(self._finished)

    def reach(self, batches: int) -> None:
        """Record that the script has finished so many batches, and asks for the next one."""
        # The last batch of a stream may be shorter than the others.
        if self.on_reached is not None and batches and not self.is_loose:
            self.on_reached(min(batches * self.batch_size, self.given))

    def loosen(self) -> None:
        """Record that the script reads in a way that does not show which rows it has finished."""
        self.is_loose = True
        if self.on_loose is not None:
            self.on_loose()

    def _scan(self, most: int | None = None) -> Iterator[list[Held]]:
        """Yield chunks to the first reader; `_read_again` decides for later readers."""
        with self._changed:
            # Two iterators of the script may begin at once, and only one of them may take rows.
            is_first, self._scanned = not self._scanned, True
        if not is_first:
            yield from self._read_again()
            return
        while True:
            chunks = self._take(most)
            if not chunks:
                return
            yield chunks

    def _read_again(self) -> Iterator[list[Held]]:
        """Yield nothing for a second pass, which scripts of Alink rely on, and warn once."""
        if not self._warned:
            self._warned = True
            logger.warning(
                "a stream can be read once, and this second pass yields no rows: keep one iterator"
                " and go on with it, `rows = iter(dataset)`"
            )
        return iter(())

    def _take(self, most: int | None) -> list[Held]:
        """Wait for chunks and take all that have arrived, or at most so many; an empty list at the
        end.
        """
        with self._changed:
            self.passed = self.taken
            self._wait_for(lambda: self._held)
            # Chunks beyond `most` stay: they count as taken only when the script gets them.
            chunks, self._held = self._held[:most], self._held[most:] if most else []
            taken_bytes = sum(len(chunk.columns) for chunk in chunks)
            self._held_bytes -= taken_bytes
            # Rows that arrived before an error are passed on first, so that the error comes at its
            # place in the stream.
            if not chunks:
                self._check_unbroken()
            self.taken += sum(chunk.rows for chunk in chunks)
            self.taken_bytes += taken_bytes
            self._changed.notify_all()
        if self.keeps_last:
            self._last.extend(chunks)
            self._last_bytes += taken_bytes
            # The newest chunk stays, however large it is, because the row that fails is probably in
            # it.
            while len(self._last) > 1 and self._last_bytes > LAST_BYTES:
                self._last_bytes -= len(self._last.popleft().columns)
        return chunks

    def _store(self, chunk: Chunk, columns: bytes) -> None:
        """Hold a chunk for the script, after waiting for room; the bridge then waits too."""
        with self._changed:
            # An empty buffer takes a chunk of any size. Otherwise a row above the bound would wait
            # indefinitely.
            self._changed.wait_for(lambda: not self._held or self._held_bytes < HELD_BYTES)
            self._held.append(Held(chunk.rows, columns))
            self._held_bytes += len(columns)
            self.count += chunk.rows
            self._changed.notify_all()


class OnceRows(StreamRows):
    """Rows that are read like a stream, and end; a second pass raises instead of yielding nothing.

    A stream's second pass is empty with a warning, since scripts of Alink rely on that. For a table
    it would be an epoch of training without rows.
    """

    is_stream = False
    is_once = True

    _first: Rows | None = None

    def file(self) -> str:
        raise RuntimeError(
            "with readOnce rows are not kept in files: read them from tf_context.batches(), or"
            f" {_REMEDY}"
        )

    def length(self) -> int:
        raise RuntimeError(
            f"with readOnce the number of rows is not known before the last one is read: {_REMEDY}"
        )

    def first_columns(self) -> Rows | None:
        """Wait for the first chunk; None where there are no rows. The first call has to precede any
        reading.
        """
        if self._first is None and not self.is_empty():
            with self._changed:
                # The first chunk leaves memory with the script's first reading.
                if self.taken:
                    raise RuntimeError(
                        "with readOnce the first rows are not available after they are read:"
                        f" {_REMEDY}"
                    )
                # The chunk stays in `_held`, so the script still reads its rows.
                self._first = Rows.FromString(self._held[0].columns)
        return self._first

    def _read_again(self) -> Iterator[list[Held]]:
        raise second_pass()


def second_pass(num_epochs: int | None = 1) -> ValueError:
    # TensorFlow passes on a ValueError; it converts other kinds to an unknown error.
    what = "this is a second pass" if num_epochs == 1 else f"num_epochs is {num_epochs}"
    return ValueError(f"with readOnce the rows can be read once, and {what}: {_REMEDY}")
