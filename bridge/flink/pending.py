"""Rows in a checkpoint: they arrived, and the script has not finished them.

Flink's keyed state holds the chunks as they arrived, and a chunk leaves it as a whole. Where one is
half finished, a restart skips its finished rows by their number, which the state has too.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import pyarrow as pa
from pyflink.common import Row

from bridge.codec.ipc import read_batch


class Pending:
    """Unfinished rows of one member, in states of its key.

    Args:
        chunks: MapState from the number of a chunk's first row to ROW(rows, arrow). The numbers
            run over all restarts, so a restart sorts by them to have the rows in their order.
        done: ValueState with the number of finished rows, in the same count.
    """

    def __init__(self, chunks: Any, done: Any) -> None:
        self._chunks = chunks
        self._done_state = done
        # It has (number of the first row, rows, bytes) of each chunk in the state.
        self._held: deque[tuple[int, int, int]] = deque()
        self.bytes = 0  # of all chunks in the state
        # Both count rows over all restarts.
        self.arrived = self.done = 0
        # So many rows were finished when the script started, from which on it counts its own.
        self._base = 0

    @property
    def rows(self) -> int:
        return self.arrived - self.done

    def restore(self) -> list[pa.RecordBatch]:
        """Return the unfinished rows of the state in their order, and count from there on.

        For a new process too, within one attempt: `drop` counts from the latest start.
        """
        found = sorted((first, chunk[0], chunk[1]) for first, chunk in self._chunks.items())
        self._base = self.done = self._done_state.value() or 0
        self._held = deque((first, rows, len(arrow)) for first, rows, arrow in found)
        self.bytes = sum(size for _, _, size in self._held)
        self.arrived = found[-1][0] + found[-1][1] if found else self.done
        return [
            # A chunk stays in the state until all of its rows are finished, so the first one may
            # begin with finished rows.
            read_batch(bytes(arrow)).slice(max(0, self.done - first))
            for first, _, arrow in found
        ]

    def take(self) -> list[pa.RecordBatch]:
        """Take the rows out of the state."""
        if self._chunks.is_empty():
            return []
        taken = self.restore()
        self._chunks.clear()
        return taken

    def add(self, rows: int, arrow: bytes) -> None:
        """Store a chunk behind all others; `arrow` is a stream of one batch with this many rows."""
        self._chunks.put(self.arrived, Row(rows, arrow))
        self._held.append((self.arrived, rows, len(arrow)))
        self.bytes += len(arrow)
        self.arrived += rows

    def drop(self, rows: int) -> None:
        """Remove finished rows from the state; `rows` is their number since this start of the
        script.
        """
        done = self._base + rows
        if done <= self.done:
            return
        self.done = done
        self._done_state.update(done)
        while self._held and self._held[0][0] + self._held[0][1] <= done:
            first, _, size = self._held.popleft()
            self._chunks.remove(first)
            self.bytes -= size
