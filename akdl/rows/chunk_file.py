"""The rows of one input on disk: its chunks as they came, and the TFRecord file of the same rows as far as it was asked for."""

import errno
import os
import threading
from array import array

from akdl.folders.disk_room import free_bytes, no_room, write_at
from akdl.rows.examples import ExampleEncoder
from akdl.wire import Rows


class ChunkFile:
    """Chunks of columns, written by one thread and read by many.

    Per chunk it holds two or three numbers of 8 bytes in memory: there may be millions of chunks.
    """

    def __init__(self, folder: str, name: str, encoder: ExampleEncoder) -> None:
        self.path = os.path.join(folder, f"{name}.tfrecords")
        """The TFRecord file, which is there after `make_frames`."""
        self._encoder = encoder
        self._columns_path = os.path.join(folder, f"{name}.columns")
        self._making = threading.Lock()
        self._is_begun = False
        self._ends = array("Q", [0])  # where each chunk ends
        self._rows = array("Q", [0])  # rows up to the end of each chunk
        self._frame_ends = array("Q", [0])  # where its frames end

    def make_file_in(self, folder: str) -> None:
        """Let the TFRecord file be made in another folder, before any of it is."""
        self.path = os.path.join(folder, os.path.basename(self.path))

    def __len__(self) -> int:
        """Return the number of chunks."""
        return len(self._ends) - 1

    def append(self, rows: int, columns: bytes) -> None:
        """Add a chunk."""
        write_at(self._columns_path, self._ends[-1], columns)
        self._rows.append(self._rows[-1] + rows)
        self._ends.append(self._ends[-1] + len(columns))

    def rows(self, chunks: int) -> int:
        """Return the number of rows in so many chunks, from the first on."""
        return self._rows[chunks]

    def size(self) -> int:
        """Return the number of bytes of all chunks."""
        return self._ends[-1]

    def some(self, start: int, size: int) -> int:
        """Return after which chunk to stop, to take chunks from `start` on that have about so many bytes; at least one."""
        end = start + 1
        while end < len(self) and self._ends[end + 1] - self._ends[start] <= size:
            end += 1
        return end

    def columns(self, chunk: int) -> Rows:
        """Return a chunk."""
        return Rows.FromString(_read(self._columns_path, self._ends[chunk], self._ends[chunk + 1]))

    def has_frames(self, chunks: int) -> bool:
        """Return whether the TFRecord file has the rows of so many chunks."""
        return self._is_begun and len(self._frame_ends) > chunks

    def make_frames(self, chunks: int) -> None:
        """Write the rows of so many chunks to the TFRecord file, unless they are there; many threads may ask for that."""
        with self._making:
            self._check_room(chunks)
            if not self._is_begun:
                write_at(self.path, 0, b"")
                self._is_begun = True
            while len(self._frame_ends) <= chunks:
                frames = self._encoder.frames(self.columns(len(self._frame_ends) - 1))
                write_at(self.path, self._frame_ends[-1], frames)
                self._frame_ends.append(self._frame_ends[-1] + len(frames))

    def frames(self, start: int, end: int, keep: bool) -> bytes:
        """Return the frames of the chunks from `start` to before `end`.

        Args:
            keep: Write them to the TFRecord file, for others who will read it.
        """
        if keep:
            self.make_frames(end)
        if self.has_frames(end):
            return _read(self.path, self._frame_ends[start], self._frame_ends[end])
        return b"".join(self._encoder.frames(self.columns(chunk)) for chunk in range(start, end))

    def drop_columns(self) -> None:
        """Remove the chunks, once their rows are in the TFRecord file and nobody needs columns."""
        if len(self):
            os.remove(self._columns_path)

    def _check_room(self, chunks: int) -> None:
        """Refuse to begin what will find no room, as far as the chunks so far tell."""
        made = len(self._frame_ends) - 1
        if made >= chunks:
            return
        wanted = self._ends[chunks] - self._ends[made]  # an Example has more bytes than its cells
        if made:
            wanted = wanted * self._frame_ends[-1] // self._ends[made]
        folder = os.path.dirname(self.path)
        if wanted > free_bytes(folder):
            raise no_room(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), folder, wanted)


def _read(path: str, start: int, end: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(start)
        data = file.read(end - start)
    if len(data) < end - start:
        raise EOFError(f"{path} ends before {end}")
    return data
