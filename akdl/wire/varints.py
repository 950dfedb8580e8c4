"""Protobuf varints of whole arrays at one width. Pure.

Shorter varints are padded, which every reader accepts. One width for a column makes a table of
bytes, which numpy fills without Python code per value.
"""

from typing import Any

import numpy as np

Array = Any


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
