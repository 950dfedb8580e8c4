"""Protobuf varints of whole arrays, all of one width: padded where a shorter one would do, which every reader takes. Pure."""

from typing import Any

import numpy as np

Array = Any


def varint(value: int) -> bytes:
    """Return a number that is not negative as a varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def width_of(values: Array) -> int:
    """Return how many bytes the varint of the largest of these numbers takes; none of them is negative."""
    return max(1, -(-int(values.max()).bit_length() // 7)) if len(values) else 1


def padded(values: Array, width: int) -> Array:
    """Return varints of exactly `width` bytes, uint8 of shape [values, width]."""
    if width == 1:
        return values.astype(np.uint8).reshape(-1, 1)
    unsigned = values.astype(np.uint64)
    result = np.empty((len(values), width), np.uint8)
    for place in range(width):
        more = 0x80 if place < width - 1 else 0
        result[:, place] = ((unsigned >> np.uint64(7 * place)) & np.uint64(0x7F)).astype(np.uint8) | np.uint8(more)
    return result
