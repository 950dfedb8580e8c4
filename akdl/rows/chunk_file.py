"""The rows of one input on disk: chunks as received, and a TFRecord file of them on request.

Columns are the form in which rows arrive, so storing them costs no conversion. Examples take about
four times the bytes, so the TFRecord file is made when a script asks for it or reads a second time.
"""

import errno
import os
import threading
from array import array
from bisect import bisect_left
from typing import List, Tuple

from akdl.rows.examples import ExampleEncoder
from akdl.storage.local_files import free_bytes, no_room, write_at
from akdl.wire import Rows


class ChunkFile:
    """Chunks of columns, written by one thread and read by many.

    Readers need no lock, because a chunk becomes visible with the last statement of `append`, when
    its bytes are in the file. A chunk takes two or three integers of memory, since there may be
    millions.
    """

    def __init__(self, folder: str, name: str, encoder: ExampleEncoder) -> None:
        self.path = os.path.join(folder, f"{name}.tfrecords")
        """The TFRecord file, which is there after `make_frames`; may be set before it is begun."""
        self._encoder = encoder
        self._columns_path = os.path.join(folder, f"{name}.columns")
        self._making = threading.Lock()
        self._is_begun = False
        # End of each chunk in the file of columns, number of rows up to there, and end of its
        # frames in the TFRecord file.
        self._ends = array("Q", [0])
        self._rows = array("Q", [0])
        self._frame_ends = array("Q", [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def append(self, rows: int, columns: bytes) -> None:
        """Store the columns of a chunk behind the others; called by the receiving thread alone."""
        # The order matters: readers take the length of `_ends` as the number of readable chunks.
        write_at(self._columns_path, self._ends[-1], columns)
        self._rows.append(self._rows[-1] + rows)
        self._ends.append(self._ends[-1] + len(columns))

    def rows(self, chunks: int) -> int:
        return self._rows[chunks]

    def size(self) -> int:
        return self._ends[-1]

    def end_of_run(self, start: int, size: int) -> int:
        """End of the run of chunks from `start` on that has about `size` bytes and at least one
        chunk.
        """
        end = start + 1
        while end < len(self) and self._ends[end + 1] - self._ends[start] <= size:
            end += 1
        return end

    def columns(self, chunk: int) -> Rows:
        return Rows.FromString(_read(self._columns_path, self._ends[chunk], self._ends[chunk + 1]))

    def last(self, rows: int, size: int) -> List[Tuple[int, bytes]]:
        """Chunks up to so many rows, of at most `size` bytes but at least one: the number of rows,
        and the columns.
        """
        # The last chunk is the one that contains row number `rows`, because the row that failed may
        # be anywhere in it.
        end = bisect_left(self._rows, rows)
        start = max(end - 1, 0)
        while start and self._ends[end] - self._ends[start - 1] <= size:
            start -= 1
        return [
            (
                self._rows[each + 1] - self._rows[each],
                _read(self._columns_path, self._ends[each], self._ends[each + 1]),
            )
            for each in range(start, end)
        ]

    def has_frames(self, chunks: int) -> bool:
        return self._is_begun and len(self._frame_ends) > chunks

    def make_frames(self, chunks: int) -> None:
        """Write the TFRecord file up to so many chunks, if it is not so far yet.

        Several readers may ask at once; the first one writes and the others wait for it.

        Raises:
            OSError: The disk cannot hold the file; the text names the folder and the sizes.
        """
        with self._making:
            self._check_room(chunks)
            # The file has to exist without any row too, since scripts open its path.
            if not self._is_begun:
                write_at(self.path, 0, b"")
                self._is_begun = True
            while len(self._frame_ends) <= chunks:
                end = self._frame_ends[-1]
                for piece in self._encoder.pieces(self.columns(len(self._frame_ends) - 1)):
                    write_at(self.path, end, piece)
                    end += len(piece)
                # Readers of frames look at this length, so it grows once the bytes are in the file.
                self._frame_ends.append(end)

    def frames(self, start: int, end: int, keep: bool) -> bytes:
        """Frames of the chunks from `start` to before `end`; `keep` also writes them to the
        TFRecord file for later readers.
        """
        if keep:
            self.make_frames(end)
        if self.has_frames(end):
            return _read(self.path, self._frame_ends[start], self._frame_ends[end])
        return b"".join(self._encoder.frames(self.columns(chunk)) for chunk in range(start, end))

    def drop_columns(self) -> None:
        """Remove the chunks, once the TFRecord file is complete and their columns are not
        needed.
        """
        if len(self):
            os.remove(self._columns_path)

    def _check_room(self, chunks: int) -> None:
        """Fail before writing if the disk cannot hold the estimated size of the file."""
        made = len(self._frame_ends) - 1
        if made >= chunks:
            return
        # At first only a lower bound can be given, because an Example has more bytes than its
        # cells. Later the ratio of the frames made so far is used.
        wanted = self._ends[chunks] - self._ends[made]
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
        # Fewer rows must not look like all of them, for example after a script has changed the
        # file.
        raise EOFError(f"{path} ends before {end}")
    return data
