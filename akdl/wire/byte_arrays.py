"""Bytes of many values in one go: ranges of various lengths, and Protobuf varints. Pure.

numpy has no operation that copies such ranges, but it copies items of any fixed size. So a range is
copied in blocks of fixed size, the last of which overlaps the one before. A range shorter than a
block is copied with the bytes behind it, which later copies overwrite:

    range of 40 bytes in blocks of 16:   [0......15][16.....31]
                                                        [24.....39]
    range of 5 bytes:                    [0..4,,,,,,,,,,,]        "," is spill,
                                                                  up to SPILL - 1 bytes

Varints that are shorter than others are padded, which every reader accepts. One width for a column
makes a table of bytes, which numpy fills without Python code per value.
"""

from typing import Any

import numpy as np

Array = Any

# Block size of short ranges. Up to SPILL - 1 bytes are read and written behind a range.
SPILL = 16
# Block size of long ranges, whose blocks are four times fewer.
_LONG = 64


def windows(data: Array, size: int) -> Array:
    """View of `data` whose item i is the `size` bytes from byte i on; the items overlap."""
    return np.ndarray((max(0, len(data) - size + 1),), f"V{size}", data, strides=(1,))


def items(table: Array) -> Array:
    """Rows of a table of bytes, shape [n, width], as items, shape [n]."""
    return np.ascontiguousarray(table).view(f"V{table.shape[1]}").reshape(-1)


def copy_ranges(source: Array, starts: Array, lengths: Array, target: Array, places: Array) -> None:
    """Copy ranges of `source` to their places in `target`, both uint8.

    Up to `SPILL - 1` bytes behind a range are overwritten before the next range is copied, so
    `target` needs that many bytes behind the last one.
    """
    if not len(lengths):
        return
    shortest, longest = int(lengths.min()), int(lengths.max())
    # Ranges of one moderate length need no blocks: one call copies them all.
    if shortest == longest and longest <= 16 * _LONG:
        if longest:
            windows(target, longest)[places] = windows(source, longest)[starts]
        return
    # Short ranges are copied first, because the ranges that follow overwrite their spill: the next
    # short one, in order, or a longer one.
    if shortest < SPILL:
        short = lengths < SPILL
        # The last short range may end at the end of `source`, and its item would read beyond it.
        padded = np.concatenate([source, np.zeros(SPILL, np.uint8)])
        _copy_items(padded, starts[short], target, places[short], SPILL)
    if longest >= SPILL:
        middle = (lengths >= SPILL) & (lengths < _LONG)
        _copy_blocks(source, starts[middle], lengths[middle], target, places[middle], SPILL)
    if longest >= _LONG:
        long = lengths >= _LONG
        _copy_blocks(source, starts[long], lengths[long], target, places[long], _LONG)


def joined_ranges(source: Array, starts: Array, lengths: Array) -> Array:
    """Copy ranges of `source`, uint8, back to back into a new array."""
    offsets = packed_offsets(lengths)
    size = int(offsets[-1])
    target = np.empty(size + SPILL, np.uint8)
    copy_ranges(source, starts, lengths, target, offsets[:-1])
    return target[:size]


def packed_offsets(lengths: Array) -> Array:
    """Start of each range when the ranges are back to back, and the end of the last, int64."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _copy_blocks(
    source: Array, starts: Array, lengths: Array, target: Array, places: Array, size: int
) -> None:
    """Copy ranges, all at least `size` bytes long, in blocks of this size."""
    counts = -(-lengths // size)
    total = int(counts.sum())
    owner = np.repeat(np.arange(len(counts)), counts)
    offsets = (np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)) * size
    # The last block of a range moves back to end with the range, so it overlaps the one before.
    offsets = np.minimum(offsets, (lengths - size)[owner])
    _copy_items(source, starts[owner] + offsets, target, places[owner] + offsets, size)


def _copy_items(source: Array, starts: Array, target: Array, places: Array, size: int) -> None:
    # numpy copies the items in order, so overlaps are harmless.
    windows(target, size)[places] = windows(source, size)[starts]


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def width_of(values: Array) -> int:
    """Bytes of the varint of the largest of these numbers, which must not be negative."""
    return max(1, -(-int(values.max()).bit_length() // 7)) if len(values) else 1


def padded(values: Array, width: int) -> Array:
    """Varints of exactly `width` bytes, uint8 of shape [values, width]."""
    # Numbers below 128 are their own varints.
    if width == 1:
        return values.astype(np.uint8).reshape(-1, 1)
    # 64 bits without a sign, because shifts of signed numbers would repeat the sign.
    unsigned = values.astype(np.uint64)
    result = np.empty((len(values), width), np.uint8)
    for place in range(width):
        # The highest bit says that another byte follows, so padding is bytes of 0x80 and a last one
        # of 0.
        more = 0x80 if place < width - 1 else 0
        result[:, place] = ((unsigned >> np.uint64(7 * place)) & np.uint64(0x7F)).astype(
            np.uint8
        ) | np.uint8(more)
    return result
