"""Shares of one size for all workers, so that they take the same number of synchronous training
steps. Pure.

"pad" appends copies with weight 0 to short shares, "repeat" copies of their own rows; "drop"
shortens long shares. A worker without rows copies a row of another worker: zeros would have the
wrong shape, or be no valid image.
"""

from __future__ import annotations

from collections import deque

import numpy as np
import pyarrow as pa

from bridge.codec.ipc import read_batch, write_batch
from bridge.exceptions import BridgeError
from bridge.settings import DROP, OFF, PAD

# Each subtask in front of the exchange deals its rows in turn, so its shares differ by a row at
# most, and all shares by the number of such subtasks. This is the largest number that there can be.
HELD_ROWS = 128


class Tail:
    """The end of a share: passes chunks on, and holds back what the end may need.

    For "drop" it holds the last 128 rows, because a row that the script has got cannot be taken
    back. For "pad" and "repeat" it holds the last chunk, whose rows are copied.
    """

    def __init__(self, mode: str, weight_column: str | None = None) -> None:
        self._mode = mode
        self._weight_column = weight_column
        self._held: deque[pa.RecordBatch] = deque()
        self._rows_held = 0
        self._last: pa.RecordBatch | None = None

    def push(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Add a chunk, and return the chunks that the script may have now."""
        if self._mode != DROP:
            # A batch may be large, so it is not held when nothing copies its rows.
            self._last = batch if self._mode != OFF else None
            return [batch]
        self._held.append(batch)
        self._rows_held += batch.num_rows
        passed = []
        # A chunk is passed on once the chunks behind it have enough rows to drop.
        while self._rows_held - self._held[0].num_rows >= HELD_ROWS:
            passed.append(self._held.popleft())
            self._rows_held -= passed[-1].num_rows
        return passed

    @property
    def sample(self) -> bytes:
        # One row is enough, because the other member copies it as often as it has to.
        return b"" if self._last is None else write_batch(self._last.slice(0, 1))

    def finish(self, sizes: list[int], own: int, sample: bytes) -> list[pa.RecordBatch]:
        """Return the rows that end the share; `sample` is a row of another member, for a share
        without rows.
        """
        if self._mode == DROP:
            return self._dropped(own - min(sizes))
        missing = max(sizes) - own
        if self._mode == OFF or missing == 0:
            return []
        # Another share is longer, so its member has sent a row to this one.
        assert self._last is not None or sample
        rows = read_batch(sample) if self._last is None else self._last
        # More rows may be missing than the chunk has, so its rows are taken in turn.
        added = rows.take(pa.array(np.arange(missing) % rows.num_rows))
        if self._mode == PAD:
            weightless = pa.array(np.zeros(missing, "f4"))
            columns = [
                weightless if name == self._weight_column else added.column(name)
                for name in added.schema.names
            ]
            added = pa.record_batch(columns, names=added.schema.names)
        return [added]

    def _dropped(self, surplus: int) -> list[pa.RecordBatch]:
        """Return the held rows without the last `surplus` of them."""
        if surplus > self._rows_held:
            raise BridgeError(
                f"equalSteps='drop': expected shares that differ by at most {HELD_ROWS} rows, got"
                f" {surplus}; set 'pad' or 'repeat'"
            )
        left = self._rows_held - surplus
        kept = []
        for batch in self._held:
            if left:
                kept.append(batch.slice(0, left))
                left -= kept[-1].num_rows
        return kept
