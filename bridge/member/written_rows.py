"""Rows that a script wrote, until they leave for Flink; where Flink keeps the rows of the script,
they wait for a cut.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

from akdl import wire
from akdl.storage.local_files import write_all

# Bytes of rows that wait for a cut in memory. Further ones wait on disk.
MOST_HELD_BYTES = 64 << 20


class WrittenRows:
    """Rows of one message, or a cut.

    A cut says that the script has finished `cut` rows of its input, and that all of their output
    precedes it; `state` is what the script saved there. `take` hands the rows over, so that nothing
    here keeps them: a row may take hundreds of megabytes.
    """

    def __init__(self, output: wire.Output, file: _SpillFile | None = None) -> None:
        self.count = output.rows.rows
        self.size = output.ByteSize()
        self.cut = 0
        self.state = b""
        rows = output.rows
        self._take: Callable[[], wire.Rows] | None = (
            (lambda: rows) if file is None else file.kept(rows)
        )

    def take(self) -> wire.Rows:
        take = self._take
        self._take = None
        assert take is not None, "rows are handed over once"
        return take()


class WrittenQueue:
    """The rows that a script wrote, in their order. The caller holds the lock of the session.

    With `holds`, rows leave up to the latest cut only: a failure may repeat the input behind it,
    and the script then writes these rows once more. Without, as in a job that keeps nothing for a
    restart, all of them leave at once. So they do where the script reads in a way that shows no
    cuts, until it makes one by a commit.

    Args:
        holds: Whether rows wait for a cut.
        folder: Where rows wait on disk, when there are too many of them; empty for the usual place.
    """

    def __init__(self, holds: bool = False, folder: str = "") -> None:
        self._holds = holds
        self._folder = folder
        self._is_loose = False
        self._ready: list[WrittenRows] = []
        self._held: list[WrittenRows] = []
        self._held_bytes = 0
        self._file: _SpillFile | None = None
        self.ready_bytes = 0

    def add(self, output: wire.Output) -> None:
        """Add the rows of a message, behind its cut if it has one.

        Raises:
            OSError: The disk is full.
        """
        self._is_loose = output.loose or (self._is_loose and not output.cut)
        is_held = self._holds and not self._is_loose
        if output.cut or not is_held:
            self.release()
        if output.cut:
            # The rows before the cut have been released above, so they leave before it.
            cut = WrittenRows(wire.Output())
            cut.cut = output.cut
            cut.state = output.state
            self._ready.append(cut)
            # A state goes to Flink as rows do, so it takes room in the same way.
            self.ready_bytes += len(output.state)
        if not output.rows.rows:
            return
        if not is_held:
            self._ready.append(WrittenRows(output))
            self.ready_bytes += self._ready[-1].size
            return
        # From here on all rows that wait go to disk, until the next cut.
        if self._held_bytes > MOST_HELD_BYTES and self._file is None:
            self._file = _SpillFile(self._folder)
        self._held.append(WrittenRows(output, self._file))
        self._held_bytes += self._held[-1].size

    def release(self) -> None:
        """Let all rows leave, since no failure repeats the input that they came from."""
        self._ready += self._held
        self.ready_bytes += self._held_bytes
        self._held = []
        self._held_bytes = 0
        # The file goes with the last of its rows, which hold the only references to it.
        self._file = None

    def __bool__(self) -> bool:
        """True where rows may leave, or a cut."""
        return bool(self._ready)

    def take(self) -> list[WrittenRows]:
        taken = self._ready
        self._ready = []
        self.ready_bytes = 0
        return taken


class _SpillFile:
    """A file without a name, which the kernel removes with the last reference to this object, or
    with the process.
    """

    def __init__(self, folder: str) -> None:
        # Without a buffer, `pread` finds what was written just before.
        self._file = tempfile.TemporaryFile(buffering=0, dir=folder or None)

    def __del__(self) -> None:
        # The disk may have had no room for a file.
        if hasattr(self, "_file"):
            self._file.close()

    def kept(self, rows: wire.Rows) -> Callable[[], wire.Rows]:
        """Write rows behind all else, and return a function that reads them."""
        content = rows.SerializeToString()
        # The function has the size and not the content, which would stay in memory with it.
        place = self._file.seek(0, os.SEEK_END)
        size = len(content)
        write_all(self._file, content)
        return lambda: wire.Rows.FromString(os.pread(self._file.fileno(), size, place))
