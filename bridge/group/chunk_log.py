"""A log of extra-input chunks on the disk of member 0, which members of other hosts read at their
own pace.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

from akdl.storage.local_files import write_at
from akdl.wire.serialized import Tally, serialized_chunk

# Number of bytes of the message that follows.
_HEAD = struct.Struct("<Q")
# A waiting reader notices within this time that its call has ended, which wakes no thread here.
_LOOK_AGAIN_S = 0.5


class ChunkLog:
    """Serialized messages `Chunk`, each with its length in front, in the order of arrival.

    The last message is an end mark with the number of all rows and the checksum of all columns.
    One thread, that of the Flink function, appends; each reader has a thread of gRPC and a place
    of its own, so a slow host holds up no other. Messages stay until the group ends, because a
    reader that has lost its connection starts over from any of them.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._changed = threading.Condition()
        self._size = 0
        self._tally = Tally()
        self._is_complete = False
        self._is_closed = False

    def append(self, rows: int, columns: bytes, extra_input: int) -> None:
        self._tally.add(rows, columns)
        self._write(serialized_chunk(rows, extra_input, columns))

    def end(self) -> None:
        if not self._is_complete:
            self._write(self._tally.end().SerializeToString(), is_last=True)

    def read(self, start: int, is_wanted: Callable[[], bool]) -> Iterator[bytes]:
        """Yield the messages as they arrive, up to the end mark, or until the log is closed or
        `is_wanted` turns false.
        """
        place = 0
        number = 0
        # The first chunk creates the file.
        self._wait_for_more(0, is_wanted)
        # `close` may have removed the file just now.
        with suppress(FileNotFoundError), open(self._path, "rb", buffering=0) as file:
            while self._wait_for_more(place, is_wanted):
                file.seek(place)
                (size,) = _HEAD.unpack(file.read(_HEAD.size))
                # Messages before `start` are passed over by their lengths, and not read.
                if number >= start:
                    # A message of protobuf is below 2 GB, so the system reads it at once.
                    yield file.read(size)
                place = place + _HEAD.size + size
                number = number + 1

    def close(self) -> None:
        """Remove the file, and let its readers end. Safe to call twice."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            with suppress(FileNotFoundError):
                os.remove(self._path)

    def _write(self, message: bytes, is_last: bool = False) -> None:
        # Readers look at `_size` alone, which grows only after the whole message is in the file.
        # So no lock is held while the disk is slow.
        write_at(self._path, self._size, _HEAD.pack(len(message)))
        write_at(self._path, self._size + _HEAD.size, message)
        with self._changed:
            self._size += _HEAD.size + len(message)
            self._is_complete = is_last
            self._changed.notify_all()

    def _wait_for_more(self, place: int, is_wanted: Callable[[], bool]) -> bool:
        with self._changed:
            while self._size <= place:
                if self._is_closed or self._is_complete or not is_wanted():
                    return False
                self._changed.wait(_LOOK_AGAIN_S)
            # A reader ends with the log, although its open file would still have the other
            # messages.
            return not self._is_closed
