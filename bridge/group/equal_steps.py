"""Shares of one size for all workers, so that synchronous training ends with all of them at once. Pure.

Rows are dealt round-robin by each upstream subtask, so shares differ by as many rows as there are such subtasks, at most.
Three ways to make them equal at the end of the input:

- "pad": short shares get copies of rows whose weight is 0, where the weight of all other rows is 1.
- "repeat": short shares get copies of rows of their own, as Alink does.
- "drop": long shares lose their last rows.

A worker without any row gets copies of another worker's.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from bridge.codec.ipc import read_batch, write_batch
from bridge.exceptions import BridgeError
from bridge.settings import DROP, OFF, PAD

HELD_ROWS = 128  # more than shares can differ by: as many as there can be upstream subtasks


class Tail:
    """The end of a share: passes chunks on and keeps what is needed to make the share shorter or longer.

    Args:
        weight_column: The feature that is 0 in rows that "pad" adds.
    """

    def __init__(self, mode: str, weight_column: str | None = None) -> None:
        self._mode = mode
        self._weight_column = weight_column
        self._held: deque[pa.RecordBatch] = deque()
        self._rows_held = 0
        self._last: pa.RecordBatch | None = None

    def push(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Take rows and return the rows that may go to the script now."""
        if self._mode != DROP:
            self._last = batch if self._mode != OFF else None  # it may be large
            return [batch]
        self._held.append(batch)
        self._rows_held += batch.num_rows
        passed = []
        while self._rows_held - self._held[0].num_rows >= HELD_ROWS:
            passed.append(self._held.popleft())
            self._rows_held -= passed[-1].num_rows
        return passed

    @property
    def sample(self) -> bytes:
        """A row of this share as an Arrow stream; empty without rows."""
        return b"" if self._last is None else write_batch(self._last.slice(0, 1))

    def finish(self, sizes: list[int], own: int, sample: bytes | None) -> list[pa.RecordBatch]:
        """Return the rows that end the share.

        Args:
            sample: Some row of the group as an Arrow stream, for a share without any; None when there is none at all.
        """
        if self._mode == DROP:
            return self._dropped(own - min(sizes))
        missing = max(sizes) - own
        if self._mode == OFF or missing == 0:
            return []
        assert self._last is not None or sample  # some member has rows, as its share is longer
        rows = read_batch(sample or b"") if self._last is None else self._last
        added = rows.take(pa.array(np.arange(missing) % rows.num_rows))
        if self._mode == PAD:
            added = _weightless(added, str(self._weight_column))
        return [added]

    def _dropped(self, surplus: int) -> list[pa.RecordBatch]:
        if surplus > self._rows_held:
            raise BridgeError(f"equalSteps 'drop': shares differ by {surplus} rows, but at most {HELD_ROWS} can be dropped")
        left = self._rows_held - surplus
        kept = []
        for batch in self._held:
            if left:
                kept.append(batch.slice(0, left))
                left -= kept[-1].num_rows
        return kept


def _weightless(rows: pa.RecordBatch, weight_column: str) -> pa.RecordBatch:
    zeros = pa.array(np.zeros(rows.num_rows, "f4"))
    columns = [zeros if name == weight_column else column for name, column in zip(rows.schema.names, rows.columns)]
    return pa.record_batch(columns, names=rows.schema.names)
