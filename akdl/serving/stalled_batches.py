"""A watch over the batches that a model computes. One that takes too long ends the process, as a thread cannot be stopped.

A file then names the rows of each such batch, for the client that sent it; it asks a fresh process, with smaller batches, or
without a row.
"""

import contextlib
import json
import os
import threading
import time
from typing import Dict, Iterator, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from akdl.storage.whole_file import WholeFile
from akdl.wire.cells import Array

CALL = "akdl-call"  # key of a `WatchedCall` in a call's metadata
_LOOKS = 10  # within the limit
_STATUS = 74


class WatchedCall(NamedTuple):
    """A call whose batches are watched; `most_rows` of a batch (0: as set), and rows that are not computed.

    A part of a call has the `places` of its rows in the whole.
    """

    name: str = ""
    most_rows: int = 0
    left_out: Sequence[int] = ()
    places: Optional[Array] = None

    def within(self, places: Array) -> "WatchedCall":
        """The part of this call with the rows at some places, which ascend."""
        left_out = np.flatnonzero(np.isin(places, self.left_out)).tolist() if self.left_out else ()
        return self._replace(left_out=left_out, places=places)


UNWATCHED = WatchedCall()


def stalled_file(folder: str, pid: int) -> str:
    """Path of the file of a process that has ended so."""
    return os.path.join(folder, f"stalled-{pid}")


class BatchWatch:
    """Ends this process when a batch of a watched call is computed for more than `limit_s` seconds; 0 for never."""

    def __init__(self, limit_s: float = 0.0, folder: str = ".") -> None:
        self.limit_s = limit_s
        self._folder = folder
        self._running: Dict[int, Tuple[float, str, Sequence[int]]] = {}  # thread to begin, call and rows
        if limit_s:
            threading.Thread(target=self._look, name="akdl-stalls", daemon=True).start()

    @contextlib.contextmanager
    def batch(self, call: WatchedCall, rows: Sequence[int]) -> Iterator[None]:
        """Look after a batch of these rows."""
        if self.limit_s and call.name:
            own = rows if call.places is None else [call.places[row] for row in rows]
            self._running[threading.get_ident()] = (time.monotonic(), call.name, own)
        try:
            yield
        finally:
            self._running.pop(threading.get_ident(), None)

    def _look(self) -> None:
        while True:
            time.sleep(min(self.limit_s / _LOOKS, 1.0))
            late = time.monotonic() - self.limit_s
            running = list(self._running.values())
            stalled = {name: list(map(int, rows)) for begun, name, rows in running if begun < late}
            if stalled:
                with WholeFile(stalled_file(self._folder, os.getpid())) as file:
                    file.write(json.dumps(stalled).encode("ascii"))
                os._exit(_STATUS)
