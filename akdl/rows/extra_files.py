"""Files of the extra inputs, once for all processes of a group on one host.

Each process gets all chunks, over its own line. The first that gets one writes them, under a lock. The others drop theirs, and
read its files when they are complete and hold just these chunks, in any order. If the writer ends before that, the others
fail, as the whole group does, and the next attempt begins in another folder. Each process holds a shared lock of the folder as
long as it lives. The folder goes with its last process, or with the next start on the host (`akdl.process.owned_folder`).
"""

import fcntl
import json
import os
import socket
import zlib
from typing import Callable, Iterator, List, NamedTuple, Optional, Sequence

from akdl.process import shared_folder
from akdl.process.channel import ChannelError
from akdl.process.file_lock import try_lock
from akdl.process.owned_folder import LOCK
from akdl.process.private_file import private
from akdl.rows.chunk_file import ChunkFile
from akdl.rows.examples import ExampleEncoder
from akdl.wire import Rows, TableColumn

WriteText = Callable[[str, Iterator[Rows], Sequence[TableColumn]], None]

_WRITER, _COMPLETE = "writer", "complete"


class ExtraFile(NamedTuple):
    """The files of one extra input: of Examples, and as text."""

    path: str
    text: str


class ExtraFiles:
    """The files of all extra inputs of a process, which may be their writer.

    Args:
        folder: Where the files go; the same for all processes that share them.
        columns: The columns of each input, in their order.
        exact_doubles: See `akdl.rows.examples.ExampleEncoder`.
        is_shared: Other processes use the folder too. It is made if need be.

    Raises:
        ChannelError: The folder belongs to another user.
    """

    def __init__(
        self, folder: str, columns: Sequence[Sequence[TableColumn]], exact_doubles: bool, is_shared: bool = False
    ) -> None:
        self._folder = folder
        self._columns = columns
        self._inputs = [
            ChunkFile(folder, f"extra-{number}", ExampleEncoder(each, exact_doubles)) for number, each in enumerate(columns, 1)
        ]
        self._seen = [[0, 0] for _ in columns]  # rows, and the sum of the chunks' checksums, which has no order
        self._writes: Optional[bool] = None if is_shared and columns else True
        self._writer_lock = -1
        if self._writes is None:
            try:
                self._lock = shared_folder.lock_of(folder, LOCK, shared=True)  # until this process ends
            except PermissionError as error:
                raise ChannelError(f"extra inputs: {error}") from None
            os.pwrite(self._lock, socket.gethostname().encode(), 0)  # for `owned_folder.sweep`

    def append(self, number: int, rows: int, columns: bytes) -> None:
        """Take a chunk of input `number`, counted from 1."""
        seen = self._seen[number - 1]
        seen[:] = seen[0] + rows, seen[1] + zlib.crc32(columns)
        if self.is_writer:
            self._inputs[number - 1].append(rows, columns)

    @property
    def is_writer(self) -> bool:
        """Whether this process writes the files; it becomes the writer when nobody is."""
        if self._writes is None:
            lock = self._opened_writer_lock()
            self._writes = try_lock(lock) and not os.path.exists(self._complete_path)
            if self._writes:
                self._writer_lock = lock
            else:
                os.close(lock)
        return self._writes

    def complete(self, write_text: WriteText) -> List[ExtraFile]:
        """Return the files, when all chunks have been taken. Waits until the writer has made them.

        Args:
            write_text: Makes the text of an input, from a path, its chunks and its columns.

        Raises:
            ChannelError: The writer has ended before, or has got other rows.
        """
        files = [ExtraFile(each.path, os.path.join(self._folder, f"text-{n}")) for n, each in enumerate(self._inputs, 1)]
        if not self.is_writer:
            self._wait_for_writer()
            return files
        for each, file, columns in zip(self._inputs, files, self._columns):
            each.make_frames(len(each))
            write_text(file.text, map(each.columns, range(len(each))), columns)
            each.drop_columns()
        if self._writer_lock >= 0:
            with open(self._complete_path + ".new", "w", encoding="ascii", opener=private) as complete:
                json.dump(self._seen, complete)
            os.replace(complete.name, self._complete_path)
            os.close(self._writer_lock)
            self._writer_lock = -1
        return files

    def _wait_for_writer(self) -> None:
        lock = self._opened_writer_lock()
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with open(self._complete_path, encoding="ascii") as file:
                written = json.load(file)
        except FileNotFoundError:
            raise ChannelError(
                "the process of this host that writes the extra inputs has ended before they were complete"
            ) from None
        finally:
            os.close(lock)
        if written != self._seen:
            raise ChannelError(
                f"another process of this host has other rows of the extra inputs, {written} instead of {self._seen} (rows and "
                "checksums): do two jobs of one operator run at once, and their inputs differ? Link an operator for each"
            )

    @property
    def _complete_path(self) -> str:
        return os.path.join(self._folder, _COMPLETE)

    def _opened_writer_lock(self) -> int:
        return os.open(os.path.join(self._folder, _WRITER), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
