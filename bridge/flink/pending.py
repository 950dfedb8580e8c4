"""Rows that a checkpoint keeps: rows that arrived and that the script has not finished.

They are part of Flink's keyed state, so each checkpoint holds exactly the rows of its moment. A function that starts from a
checkpoint gets these rows first, before the rows that the source sends again.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import pyarrow as pa
from pyflink.common import Row

from bridge.codec.ipc import read_batch


class Pending:
    """The rows of one member that are not done. Only for use while Flink calls the function with the member's key.

    Args:
        chunks: Map state of the number of a chunk's first row to ROW(rows, an Arrow stream of them). Rows are numbered
            as they come, over all restarts.
        done: Value state of the number of rows that are done.
    """

    def __init__(self, chunks: Any, done: Any) -> None:
        self._chunks = chunks
        self._done_state = done
        # (number of the first row, rows, bytes) of each chunk in the state
        self._held: deque[tuple[int, int, int]] = deque()
        self.bytes = 0
        """Of all chunks in the state."""
        self._done = 0
        self._base = 0  # rows that were done when the script started
        self._came = 0

    @property
    def rows(self) -> int:
        """How many rows are not done."""
        return self._came - self._done

    @property
    def came(self) -> int:
        """How many rows have come, over all restarts."""
        return self._came

    @property
    def done(self) -> int:
        """How many of them are done."""
        return self._done

    def restore(self) -> list[pa.RecordBatch]:
        """Return the rows that are not done, for a script that starts now."""
        found = sorted((first, chunk[0], chunk[1]) for first, chunk in self._chunks.items())
        self._base = self._done = self._done_state.value() or 0
        self._held = deque((first, rows, len(arrow)) for first, rows, arrow in found)
        self.bytes = sum(size for _, _, size in self._held)
        self._came = found[-1][0] + found[-1][1] if found else self._done
        return [read_batch(bytes(arrow)).slice(max(0, self._done - first)) for first, _, arrow in found]

    def add(self, rows: int, arrow: bytes) -> None:
        """Keep rows that have come."""
        self._chunks.put(self._came, Row(rows, arrow))
        self._held.append((self._came, rows, len(arrow)))
        self.bytes += len(arrow)
        self._came += rows

    def drop(self, rows: int) -> None:
        """Forget rows that are done.

        Args:
            rows: How many the script has done with since it started.
        """
        done = self._base + rows
        if done <= self._done:
            return
        self._done = done
        self._done_state.update(done)
        while self._held and self._held[0][0] + self._held[0][1] <= done:
            first, _, size = self._held.popleft()
            self._chunks.remove(first)
            self.bytes -= size
