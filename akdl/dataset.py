"""Rows on their way from the channel into a script.

Chunks hold complete TFRecord frames, so they are appended to the dataset file as they come and no record is touched.
`segments` lets TensorFlow's own TFRecord reader follow the growing file: it hands out the path of a small file with the
records of the chunks that have arrived since, and at last nothing more. `parts` does the same for a reader that makes use of
frames of one layout.
"""

import io
import os
import threading
import time
import zlib
from contextlib import ExitStack, contextmanager
from typing import Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from akdl.channel import ChannelError
from akdl.packed import Layout, layout, unpack
from akdl.wire import Chunk, Progress

FILE_NAME = "dataset.tfrecords"
SEGMENT_BYTES = 8 << 20  # several chunks share a segment when they are there already; opening one costs about 0.1 ms


class Alike(NamedTuple):
    """Frames of one layout."""

    layout: Layout
    frames: Union[bytes, memoryview]


class Rows:
    """The rows of this worker, written to a file by a thread of their own.

    Args:
        folder: Where the files and segments live.
        chunks: The stream to read, see `akdl.channel.Channel.read`.
        extra_inputs: How many inputs come besides, each into a file of its own.
    """

    is_stream = False

    def __init__(self, folder: str, chunks: Iterable[Chunk], extra_inputs: int = 0) -> None:
        self._folder = folder
        self._path = os.path.join(folder, FILE_NAME)
        self._extra_paths = [os.path.join(folder, f"extra-{number}.tfrecords") for number in range(1, extra_inputs + 1)]
        self._changed = threading.Condition()
        self._ends: List[int] = []  # file offset after each chunk
        self._counts: List[int] = []  # rows up to the end of each chunk
        self._layouts: List[Optional[Layout]] = []  # of each chunk
        self._count = 0
        self._taken = 0  # rows that the script has got, or is about to read from a file that it has got
        self._waiting = 0  # readers that wait for rows
        self._complete = False
        self._error: Optional[Exception] = None
        self._readers = 0
        for path in [self._path, *self._extra_paths]:
            open(path, "wb").close()
        threading.Thread(target=self._fill, args=(chunks,), name="akdl-rows", daemon=True).start()

    @property
    def count(self) -> int:
        """Rows that have arrived so far."""
        return self._count

    def progress(self) -> Progress:
        """Return how far the script has come, to be reported."""
        with self._changed:
            complete = self._complete and self._error is None
            waiting = self._waiting > 0
            return Progress(rows_read=self._taken, waiting=waiting, dataset_file=self._path, dataset_complete=complete)

    def wait_for_progress(self, timeout_s: float) -> None:
        """Return when it is worthwhile to ask for `progress` again: after so many seconds."""
        time.sleep(timeout_s)

    def file(self) -> str:
        """Wait for the last row and return the path of the TFRecord file.

        Raises:
            ChannelError: The rows did not arrive completely.
        """
        self._wait_complete()
        return self._path

    def extra_files(self) -> List[str]:
        """Wait for the last row and return the paths of the TFRecord files of the extra inputs, in their order.

        Raises:
            ChannelError: The rows did not arrive completely.
        """
        self._wait_complete()
        return self._extra_paths

    def length(self) -> int:
        """Wait for the last row and return the number of rows.

        Raises:
            ChannelError: The rows did not arrive completely.
        """
        self._wait_complete()
        return self._count

    def is_empty(self) -> bool:
        """Wait for the first row, or for the end, and return whether there is no row.

        Raises:
            ChannelError: The rows did not arrive completely.
        """
        with self._changed:
            with self._noted_as_waiting():
                self._changed.wait_for(lambda: self._count or self._complete or self._error is not None)
            check_unbroken(self._error)
            return not self._count

    def segments(self) -> Iterator[str]:
        """Yield paths of TFRecord files that together hold each row once; a path is valid until the next is asked for.

        Raises:
            ChannelError: The rows did not arrive completely.
        """
        with self._changed:
            whole = self._complete and self._error is None
            if whole:
                self._taken = self._count
        if whole:
            yield self._path
            return
        with self._segment() as segment:
            for start, end, _ in self._ranges(False):
                _copy_range(self._path, start, end, segment)
                yield segment

    def parts(self) -> Iterator[Union[Alike, str]]:
        """Yield rows as they arrive, each once: frames of one layout, or else a path as `segments` does.

        Raises:
            ChannelError: The rows did not arrive completely.
        """
        with self._segment() as segment:
            for start, end, form in self._ranges(True):
                if form is None:
                    _copy_range(self._path, start, end, segment)
                    yield segment
                else:
                    yield Alike(form, _read_range(self._path, start, end))

    def _fill(self, chunks: Iterable[Chunk]) -> None:
        try:
            with ExitStack() as stack:
                paths = [self._path, *self._extra_paths]
                self._append([stack.enter_context(open(path, "ab", buffering=0)) for path in paths], chunks)
        except Exception as error:  # whatever it was, the reader of the rows must hear of it
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _append(self, files: Sequence[io.RawIOBase], chunks: Iterable[Chunk]) -> None:
        size, checksum = 0, 0
        for chunk in chunks:
            if chunk.HasField("end"):
                check_end(chunk, self._count, checksum)
                with self._changed:
                    self._complete = True
                    self._changed.notify_all()
                return
            records = chunk.records  # asked for once: protobuf copies it each time
            checksum = zlib.crc32(records, checksum)
            frames = unpack(records)
            write_all(files[chunk.input], frames)
            if chunk.input:
                continue
            size += len(frames)
            form = layout(records)
            with self._changed:
                self._layouts.append(form)
                self._ends.append(size)
                self._count += chunk.rows
                self._counts.append(self._count)
                self._changed.notify_all()
        raise ChannelError(f"the rows of this worker stopped after {self._count} without an end mark")

    def _wait_complete(self) -> None:
        with self._changed:
            with self._noted_as_waiting():
                self._changed.wait_for(lambda: self._complete or self._error is not None)
            check_unbroken(self._error)
            self._taken = self._count

    @contextmanager
    def _noted_as_waiting(self) -> Iterator[None]:
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    @contextmanager
    def _segment(self) -> Iterator[str]:
        """Give a reader the path of its segments, and remove what is there when it has ended."""
        with self._changed:
            self._readers += 1
            path = os.path.join(self._folder, f"segment-{self._readers}.tfrecords")
        try:
            yield path
        finally:
            if os.path.exists(path):
                os.remove(path)

    def _ranges(self, of_one_layout: bool) -> Iterator[Tuple[int, int, Optional[Layout]]]:
        """Yield (start, end, layout of the first frame) of new data, some chunks at a time, until the last."""
        taken, start = 0, 0
        while True:
            with self._changed:
                with self._noted_as_waiting():
                    while len(self._ends) == taken and not self._complete and self._error is None:
                        self._changed.wait()
                check_unbroken(self._error)
                if len(self._ends) == taken:
                    return
                form = self._layouts[taken]
                while True:
                    end = self._ends[taken]
                    taken += 1
                    if taken == len(self._ends) or self._ends[taken] - start > SEGMENT_BYTES:
                        break
                    if of_one_layout and self._layouts[taken] != form:
                        break
                self._taken = max(self._taken, self._counts[taken - 1])
            yield start, end, form
            start = end


def check_unbroken(error: Optional[Exception]) -> None:
    """Tell a reader of rows that they broke off.

    Args:
        error: What stopped their arrival; None as long as nothing has.

    Raises:
        ChannelError: There is an error.
    """
    if error is not None:
        raise ChannelError(f"the rows of this worker did not arrive completely: {error}") from error


def check_end(chunk: Chunk, count: int, checksum: int) -> None:
    """Compare what has arrived with what the end mark says was sent.

    Raises:
        ChannelError: They differ.
    """
    if (chunk.end.rows, chunk.end.checksum) != (count, checksum):
        raise ChannelError(
            f"the end mark speaks of {chunk.end.rows} rows with checksum {chunk.end.checksum:08x}, "
            f"{count} rows with {checksum:08x} arrived"
        )


def write_all(file: io.RawIOBase, data: Union[bytes, memoryview]) -> None:
    """Write to an unbuffered file, which may take a part only."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _read_range(path: str, start: int, end: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(start)
        data = file.read(end - start)
    if len(data) < end - start:
        raise ChannelError(f"{path} ends before offset {end}")
    return data


def _copy_range(source: str, start: int, end: int, target: str) -> None:
    # A new file each time: TensorFlow may still hold the former one open, and must not see it change.
    if os.path.exists(target):
        os.remove(target)
    with open(target, "wb", buffering=0) as writer:
        write_all(writer, _read_range(source, start, end))
