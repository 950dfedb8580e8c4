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

from akdl.packed import HEAD, TAIL
from akdl.wire import Example
from bridge.exceptions import BridgeError
from bridge.tfrecord import frame, frames

OFF, PAD, REPEAT, DROP = "off", "pad", "repeat", "drop"
MODES = (OFF, PAD, REPEAT, DROP)
HELD_ROWS = 128  # more than shares can differ by: as many as there can be upstream subtasks

Chunk = tuple[int, bytes]  # rows, their records, see `akdl.packed`


class Tail:
    """The end of a share: passes chunks on and keeps what is needed to make the share shorter or longer.

    Args:
        mode: "off", "pad", "repeat" or "drop".
        weight_column: The feature that is 0 in rows that "pad" adds.
    """

    def __init__(self, mode: str, weight_column: str | None = None) -> None:
        self._mode = mode
        self._weight_column = weight_column
        self._held: deque[Chunk] = deque()
        self._rows_held = 0
        self._last: bytes = b""

    def push(self, rows: int, records: bytes) -> list[Chunk]:
        """Take a chunk and return those that may go to the script now."""
        self._last = records
        if self._mode != DROP:
            return [(rows, records)]
        self._held.append((rows, records))
        self._rows_held += rows
        passed = []
        while self._rows_held - self._held[0][0] >= HELD_ROWS:
            passed.append(self._held.popleft())
            self._rows_held -= passed[-1][0]
        return passed

    @property
    def sample(self) -> bytes:
        """The frame of a row of this share; empty without rows."""
        return next(frames(self._last), b"")

    def finish(self, sizes: list[int], own: int, sample: bytes | None) -> list[Chunk]:
        """Return the chunks that end the share.

        Args:
            sizes: Sizes of all shares.
            own: Size of this share, with what is held here.
            sample: The frame of some row of the group, for a share without any; None when there is none at all.

        Raises:
            BridgeError: Shares differ by more rows than were held.
        """
        if self._mode == DROP:
            return self._dropped(own - min(sizes))
        missing = max(sizes) - own
        if self._mode == OFF or missing == 0:
            return []
        own_rows = list(frames(self._last)) or [sample or b""]
        rows = [own_rows[place % len(own_rows)] for place in range(missing)]
        if self._mode == PAD:
            rows = [_weightless(row, str(self._weight_column)) for row in rows]
        return [(missing, b"".join(rows))]

    def _dropped(self, surplus: int) -> list[Chunk]:
        if surplus > self._rows_held:
            raise BridgeError(
                f"equalSteps 'drop': shares differ by {surplus} rows, more than the {HELD_ROWS} of so many upstream subtasks"
            )
        rows = [row for _, records in self._held for row in frames(records)]
        kept = rows[: len(rows) - surplus]
        return [(len(kept), b"".join(kept))] if kept else []


def _weightless(row: bytes, weight_column: str) -> bytes:
    example = Example.FromString(row[HEAD:-TAIL])
    example.features.feature[weight_column].float_list.value[:] = [0.0]
    return frame(example.SerializeToString())
