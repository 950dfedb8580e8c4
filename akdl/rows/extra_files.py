"""Files of the extra inputs, once for all processes of a group on one host.

One process of a host gets the chunks and makes the files, in a folder that all of them share. The others get none, and wait
until they are complete. If their maker ends before that, its group fails and with it they. Each process holds the folder as
long as it lives, and each bridge from when it knows of the others. The maker ends when these have come.
"""

import os
import time
from typing import Callable, Iterator, List, NamedTuple, Sequence

from akdl.folders import owned_folder
from akdl.folders.private_file import private
from akdl.process.channel import ChannelError
from akdl.rows.chunk_file import ChunkFile
from akdl.rows.examples import ExampleEncoder
from akdl.wire import Rows, TableColumn

WriteText = Callable[[str, Iterator[Rows], Sequence[TableColumn]], None]

_COMPLETE = "complete"
_LOOK_S = 0.05


class ExtraFile(NamedTuple):
    """The files of one extra input: of Examples, and as text."""

    path: str
    text: str


class ExtraFiles:
    """The files of all extra inputs, and their chunks in the process that gets them.

    Args:
        folder: Of this process, where chunks are kept until the files are made.
    """

    def __init__(self, folder: str, columns: Sequence[Sequence[TableColumn]], exact_doubles: bool) -> None:
        self._folder = folder
        self._columns = columns
        self._inputs = [
            ChunkFile(folder, f"extra-{number}", ExampleEncoder(each, exact_doubles)) for number, each in enumerate(columns, 1)
        ]

    def append(self, number: int, rows: int, columns: bytes) -> None:
        """Take a chunk of input `number`, counted from 1."""
        self._inputs[number - 1].append(rows, columns)

    def complete(self, write_text: WriteText, shared: str = "", waits: bool = False) -> List[ExtraFile]:
        """Return the files, when all chunks have been taken.

        Args:
            write_text: Makes the text of an input, from a path, its chunks and its columns.
            shared: The folder that the processes of this host share, made if need be; empty for files of this one alone.
        """
        folder = shared or self._folder
        if shared:
            try:
                self._lock = owned_folder.hold(shared)  # until this process ends
            except PermissionError as error:
                raise ChannelError(f"extra inputs: {error}") from None
        for each in self._inputs:
            each.make_file_in(folder)
        files = [ExtraFile(each.path, os.path.join(folder, f"text-{n}")) for n, each in enumerate(self._inputs, 1)]
        done = os.path.join(folder, _COMPLETE)
        if waits:
            while not os.path.exists(done):  # this process is ended where that cannot come any more
                time.sleep(_LOOK_S)
            return files
        for each, file, columns in zip(self._inputs, files, self._columns):
            each.make_frames(len(each))
            write_text(file.text, map(each.columns, range(len(each))), columns)
            each.drop_columns()
        if shared:
            open(done, "wb", opener=private).close()
        return files
