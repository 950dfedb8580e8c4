"""Ranges of bytes of many lengths, copied all at once. Pure.

numpy has no operation for this, but it copies items of any fixed size. So a range is copied in blocks of fixed size. The last
block overlaps the block before it. A range shorter than a block is copied together with the bytes that follow it.
"""

from typing import Any

import numpy as np

Array = Any

SPILL = 16  # so many bytes, less one, may be written after a range, and are read after it
_LONG = 64


def windows(data: Array, size: int) -> Array:
    """Return an array whose item i is the `size` bytes of `data` from byte i on; the items overlap."""
    return np.ndarray((max(0, len(data) - size + 1),), f"V{size}", data, strides=(1,))


def items(table: Array) -> Array:
    """Return each row of a table of bytes, shape [n, width], as one item, shape [n]."""
    return np.ascontiguousarray(table).view(f"V{table.shape[1]}").reshape(-1)


def copy_ranges(source: Array, starts: Array, lengths: Array, target: Array, places: Array) -> None:
    """Copy the ranges of `source` to their places in `target`.

    Args:
        starts: Where each range begins in it, shape [n].
        target: uint8. Up to `SPILL - 1` bytes after a range are overwritten, by nothing that makes sense, before the next
            range is copied; so many bytes have to be there after the last one.
    """
    if not len(lengths):
        return
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest == longest and longest <= 16 * _LONG:
        if longest:
            windows(target, longest)[places] = windows(source, longest)[starts]
        return
    if shortest < SPILL:  # these first: what they overwrite belongs to later ones of them, or to the longer ones
        short = lengths < SPILL
        _copy_items(_padded(source), starts[short], target, places[short], SPILL)
    if longest >= SPILL:
        middle = (lengths >= SPILL) & (lengths < _LONG)
        _copy_blocks(source, starts[middle], lengths[middle], target, places[middle], SPILL)
    if longest >= _LONG:
        long = lengths >= _LONG
        _copy_blocks(source, starts[long], lengths[long], target, places[long], _LONG)


def joined_ranges(source: Array, starts: Array, lengths: Array) -> Array:
    """Return the ranges of `source` back to back, uint8."""
    offsets = packed_offsets(lengths)
    size = int(offsets[-1])
    target = np.empty(size + SPILL, np.uint8)
    copy_ranges(source, starts, lengths, target, offsets[:-1])
    return target[:size]


def packed_offsets(lengths: Array) -> Array:
    """Return where each of ranges of these lengths begins when they lie back to back, and where the last one ends, int64."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _copy_blocks(source: Array, starts: Array, lengths: Array, target: Array, places: Array, size: int) -> None:
    """Copy ranges, none shorter than `size`, in blocks of this size."""
    counts = -(-lengths // size)
    total = int(counts.sum())
    owner = np.repeat(np.arange(len(counts)), counts)
    offsets = (np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)) * size
    offsets = np.minimum(offsets, (lengths - size)[owner])
    _copy_items(source, starts[owner] + offsets, target, places[owner] + offsets, size)


def _copy_items(source: Array, starts: Array, target: Array, places: Array, size: int) -> None:
    # One by one, in order: that items overlap does no harm.
    windows(target, size)[places] = windows(source, size)[starts]


def _padded(source: Array) -> Array:
    return np.concatenate([source, np.zeros(SPILL, np.uint8)])
