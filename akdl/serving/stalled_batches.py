"""A watch over the batches that a model computes. One that takes too long ends the process, as a thread cannot be stopped.

A file then names the rows of each such batch, for the client that sent it; it asks a fresh process, with smaller batches, or
without a row.
"""

import contextlib
import json
import os
import threading
import time
from typing import Dict, Iterator, List, NamedTuple, Sequence, Tuple

CALL = "akdl-call"  # key of a `WatchedCall` in a call's metadata
_LOOKS = 10  # within the limit
_STATUS = 74


class WatchedCall(NamedTuple):
    """A call whose batches are watched; `most_rows` of a batch (0: as set), and rows that are not computed."""

    name: str = ""
    most_rows: int = 0
    left_out: Sequence[int] = ()


UNWATCHED = WatchedCall()


def stalled_file(folder: str, pid: int) -> str:
    """Path of the file of a process that has ended so."""
    return os.path.join(folder, f"stalled-{pid}")


class BatchWatch:
    """Ends this process when a batch of a watched call is computed for more than `limit_s` seconds; 0 for never."""

    def __init__(self, limit_s: float = 0.0, folder: str = ".") -> None:
        self.limit_s = limit_s
        self._folder = folder
        self._running: Dict[int, Tuple[float, str, List[int]]] = {}  # thread to begin, call and rows
        if limit_s:
            threading.Thread(target=self._look, name="akdl-stalls", daemon=True).start()

    @contextlib.contextmanager
    def batch(self, call: WatchedCall, rows: Sequence[int]) -> Iterator[None]:
        """Look after a batch of these rows."""
        if self.limit_s and call.name:
            self._running[threading.get_ident()] = (time.monotonic(), call.name, [int(row) for row in rows])
        try:
            yield
        finally:
            self._running.pop(threading.get_ident(), None)

    def _look(self) -> None:
        while True:
            time.sleep(min(self.limit_s / _LOOKS, 1.0))
            late = time.monotonic() - self.limit_s
            stalled = {name: rows for begun, name, rows in list(self._running.values()) if begun < late}
            if stalled:
                path = stalled_file(self._folder, os.getpid())
                with open(path + "~", "w", encoding="ascii") as file:
                    json.dump(stalled, file)
                os.rename(path + "~", path)
                os._exit(_STATUS)
