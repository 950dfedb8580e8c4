"""Rows of a bounded table between the channel and a script, which may read them several times.

Chunks of columns are appended to a file as received, and no row is touched. `columns` yields the
chunks for `batches`. `segments` yields the paths of small TFRecord files, each with the rows
received since the last one, because TensorFlow's reader ends at the end of a file and cannot follow
one that grows. Examples are made on request, and stored when a script asks for the file or reads a
second time.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Iterable, Iterator, Sequence

from akdl.rows.arriving_rows import LAST_BYTES, ArrivingRows, segment_file
from akdl.rows.chunk_file import ChunkFile
from akdl.rows.examples import ExampleEncoder
from akdl.rows.extra_files import ExtraFile, ExtraFiles, WriteText
from akdl.wire import Chunk, Progress, Rows, TableColumns

# Bytes of columns: the largest share that is waited for when its length is needed beforehand.
AWAITED_BYTES = 16 << 20
# Bytes of columns in a segment. Available chunks share one, because opening it costs about 0.1 ms.
SEGMENT_BYTES = 2 << 20


class FileRows(ArrivingRows):
    """Rows of a bounded table and of the extra inputs, stored in `folder`.

    Each reader begins at the first row and waits for the rows that have not arrived yet, so the
    script starts while Flink still sends. Several readers may read at once.
    """

    is_stream = False
    is_once = False

    def __init__(
        self,
        folder: str,
        chunks: Iterable[Chunk],
        columns: TableColumns,
        exact_doubles: bool = False,
        extra_columns: Sequence[TableColumns] = (),
    ) -> None:
        self._folder = folder
        self._input = ChunkFile(folder, "dataset", ExampleEncoder(columns, exact_doubles))
        self._extra = ExtraFiles(folder, extra_columns, exact_doubles)
        self._readers = 0
        self._makes_file = False
        super().__init__(chunks)

    def progress(self) -> Progress:
        with self._changed:
            return Progress(
                rows_read=self.taken,
                waiting=self.is_waiting,
                dataset_file=self._input.path,
                dataset_complete=self._has_file(),
            )

    def wait_for_progress(self, timeout_s: float) -> None:
        """Wait between two reports; only streams have to report earlier, see `StreamRows`."""
        time.sleep(timeout_s)

    def file(self, for_script: bool = True) -> str:
        """Wait for the last row and return the path of the TFRecord file, which is written while
        the rows arrive.
        """
        for _, end in self._ranges(for_script):
            self._input.make_frames(end)
        # Without rows the loop makes nothing, but scripts open the file all the same.
        self._input.make_frames(0)
        return self._input.path

    def make_file(self) -> None:
        """Start a thread that writes the TFRecord file, for other processes. Safe to call twice.

        A chief that coordinates reads the shares of all workers by their paths, while the workers'
        own scripts may never read a row.
        """
        if not self._makes_file:
            self._makes_file = True
            threading.Thread(target=self._make_file, name="akdl-file", daemon=True).start()

    def extra_files(
        self, write_text: WriteText, shared: str = "", waits: bool = False
    ) -> list[ExtraFile]:
        self._wait_complete()
        with self._counted_as_waiting():
            return self._extra.complete(write_text, shared, waits)

    def first_columns(self) -> Rows | None:
        return None if self.is_empty() else self._input.columns(0)

    def length(self) -> int:
        self._wait_complete()
        return self.count

    def length_beforehand(self) -> int | None:
        """Number of rows, if all have arrived or the share is small enough to wait for; else None.

        A dataset of known length lets Keras end an epoch at its last step. Waiting for all rows of
        a large table would delay the first step instead.
        """
        with self._changed:
            self._wait_for(lambda: self._input.size() > AWAITED_BYTES)
            return self.count if self._complete and self._error is None else None

    def segments(self) -> Iterator[str]:
        """Yield paths of TFRecord files that together hold each row once; a path is valid until the
        next one.
        """
        with self._changed:
            # Once the whole file exists, a further pass reads it instead of segments of its own.
            whole = self._has_file()
            if whole:
                self.taken = self.count
            else:
                self._readers += 1
            reader = self._readers
        if whole:
            yield self._input.path
            return
        # A single reading leaves nothing on disk that only a second one would use.
        keep = reader > 1
        for start, end in self._ranges():
            path = os.path.join(self._folder, f"segment-{reader}-{start}.tfrecords")
            # `segment_file` deletes its name of the frames, and an exhausted iterator holds them no
            # longer.
            with segment_file(path, iter([self._input.frames(start, end, keep)])):
                yield path

    def columns(self) -> Iterator[Rows]:
        for start, end in self._ranges():
            for chunk in range(start, end):
                yield self._input.columns(chunk)

    def last(self) -> list[tuple[int, bytes]]:
        # Nothing is counted as taken where the script reads the file by the path that `shares`
        # returned.
        return self._input.last(self.taken or self.count, LAST_BYTES)

    def _store(self, chunk: Chunk, columns: bytes) -> None:
        # Extra inputs share the channel with the rows, and have files of their own.
        if chunk.input:
            self._extra.append(chunk.input, chunk.rows, columns)
            return
        self._input.append(chunk.rows, columns)
        with self._changed:
            # The chunk is in the file by now, so a reader that wakes up finds it.
            self.count += chunk.rows
            self._changed.notify_all()

    def _make_file(self) -> None:
        try:
            self.file(for_script=False)
        # The error may come from `_receive` or from the disk. Other processes wait for this file,
        # so every reader has to fail.
        except Exception as error:
            self._fail(error)

    def _has_file(self) -> bool:
        return self._complete and self._error is None and self._input.has_frames(len(self._input))

    def _wait_complete(self) -> None:
        with self._changed:
            self._wait_for(lambda: False)
            self._check_unbroken()
            self.taken = self.count

    def _ranges(self, for_script: bool = True) -> Iterator[tuple[int, int]]:
        """Yield (first, last + 1) of newly arrived chunks until the last.

        `for_script` counts them as read by the script. The lock is free while the caller works on
        the chunks, so the receiving thread goes on.
        """
        taken = 0
        while True:
            with self._changed:
                self._wait_for(lambda: len(self._input) > taken, for_script)  # noqa: B023
                self._check_unbroken()
                if len(self._input) == taken:
                    return
                start, taken = taken, self._input.end_of_run(taken, SEGMENT_BYTES)
                if for_script:
                    # Several readers may be at different places, and the one that is furthest
                    # counts.
                    self.taken = max(self.taken, self._input.rows(taken))
            yield start, taken
