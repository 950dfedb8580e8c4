"""Files of the extra inputs, shared by all processes of a group on one host.

One process per host receives the chunks and writes the files to a shared folder; the others wait
until they are complete. If the writer fails, its group fails with it. Each process holds the folder
while it lives, and each bridge from the moment it has the addresses of the others; the writer ends
after them.
"""

import os
import time
from typing import Callable, Iterator, List, NamedTuple, Sequence

from akdl.process.channel import ChannelError
from akdl.rows.chunk_file import ChunkFile
from akdl.rows.examples import ExampleEncoder
from akdl.storage import locked_folder
from akdl.storage.local_files import private
from akdl.wire import Rows, TableColumns

WriteText = Callable[[str, Iterator[Rows], TableColumns], None]

_COMPLETE = "complete"
# Seconds between two looks for the mark of the writer.
_LOOK_S = 0.05


class ExtraFile(NamedTuple):
    path: str
    text: str


class ExtraFiles:
    """Files of all extra inputs, and their chunks in the process that receives them.

    `folder` keeps the chunks. Extra inputs are tables that every process of a group gets whole. For
    an input of 48 MB, a job of four workers wrote 1,524 MB to disk when each member received it,
    and 386 MB since each host receives it once.
    """

    def __init__(self, folder: str, columns: Sequence[TableColumns], exact_doubles: bool) -> None:
        self._folder = folder
        self._columns = columns
        self._inputs = [
            ChunkFile(folder, f"extra-{number}", ExampleEncoder(each, exact_doubles))
            for number, each in enumerate(columns, 1)
        ]

    def append(self, number: int, rows: int, columns: bytes) -> None:
        self._inputs[number - 1].append(rows, columns)

    def complete(
        self, write_text: WriteText, shared: str = "", waits: bool = False
    ) -> List[ExtraFile]:
        """Write the files, or with `waits` await them; `shared` is the folder of all processes of
        this host, "" for none.
        """
        folder = shared or self._folder
        # Processes hold the folder before they wait for its files, so that the writer cannot remove
        # it between the moment when the files are complete and the moment when they are opened.
        if shared:
            try:
                # The descriptor is never closed here, so the lock lasts until this process ends.
                self._lock = locked_folder.hold(shared)
            except PermissionError as error:
                raise ChannelError(f"extra inputs: {error}") from None
        for each in self._inputs:
            each.path = os.path.join(folder, os.path.basename(each.path))
        files = [
            ExtraFile(each.path, os.path.join(folder, f"text-{n}"))
            for n, each in enumerate(self._inputs, 1)
        ]
        done = os.path.join(folder, _COMPLETE)
        if waits:
            # This wait needs no deadline, because the bridge ends this process if the writer fails.
            while not os.path.exists(done):
                time.sleep(_LOOK_S)
            return files
        for each, file, columns in zip(self._inputs, files, self._columns):
            each.make_frames(len(each))
            write_text(file.text, map(each.columns, range(len(each))), columns)
            # The text has been written, for which alone the columns were still needed.
            each.drop_columns()
        # The mark is written last, because its existence is all that the other processes look for.
        if shared:
            open(done, "wb", opener=private).close()
        return files
