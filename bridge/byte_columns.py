"""Columns of bytes, one value per row: as a matrix where all values have one width, else as an Arrow array. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Matrix = NDArray[np.uint8]


def varint(value: int) -> bytes:
    """Return a number that is not negative as a protobuf varint."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def varint_width(largest: int) -> int:
    """Return how many bytes a varint of this number takes."""
    return max(1, -(-largest.bit_length() // 7))


def varints(values: NDArray[np.int64]) -> Matrix:
    """Return varints of the width that the largest of `values` needs; negative numbers take 10 bytes."""
    unsigned = np.ascontiguousarray(values).view(np.uint64)
    return padded(unsigned, varint_width(int(unsigned.max(initial=0))))


def padded(values: NDArray[Any], width: int) -> Matrix:
    """Return varints of exactly `width` bytes, shape [values, width]."""
    unsigned = values.astype(np.uint64, copy=False)
    result = np.empty((len(values), width), "u1")
    for place in range(width):
        more = 0x80 if place < width - 1 else 0
        result[:, place] = (unsigned >> np.uint64(7 * place)).astype("u1") & 0x7F | more
    return result


def side_by_side(parts: Sequence[bytes | Matrix], size: int) -> Matrix:
    """Put constants and matrices side by side."""
    width = sum(len(part) if isinstance(part, bytes) else part.shape[1] for part in parts)
    result = np.empty((size, width), "u1")
    place = 0
    for part in parts:
        end = place + (len(part) if isinstance(part, bytes) else part.shape[1])
        result[:, place:end] = np.frombuffer(part, "u1") if isinstance(part, bytes) else part
        place = end
    return result


def offsets_of(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Return where each of values of these lengths begins, and where the last one ends."""
    result = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=result[1:])
    return result


def slices(data: Matrix, offsets: NDArray[np.int64]) -> pa.Array:
    """Return the slices of `data` between `offsets` as an Arrow array."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def as_array(rows: Matrix) -> pa.Array:
    """Return the rows of a matrix as an Arrow array."""
    return slices(rows.reshape(-1), np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1])


def masked_out(values: pa.Array, valid: NDArray[np.bool_]) -> pa.Array:
    """Return the values, null where they are not valid."""
    return values if valid.all() else pc.if_else(pa.array(valid), values, pa.scalar(None, pa.binary()))


def lengths_of(values: pa.Array) -> NDArray[np.int64]:
    """Return the length of each value; 0 for null."""
    lengths: NDArray[np.int64] = pc.fill_null(pc.binary_length(values), 0).to_numpy().astype(np.int64)
    return lengths


def array_offsets(values: pa.Array) -> NDArray[np.int64]:
    """Return where each value begins in the data buffer, and where the last one ends."""
    raw = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    return raw.astype(np.int64)


def data_of(values: pa.Array) -> Matrix:
    """Return the bytes of all values back to back."""
    offsets = array_offsets(values)
    if offsets[-1] == offsets[0]:
        return np.empty(0, "u1")
    data: Matrix = np.frombuffer(values.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    return data


def join(pieces: Sequence[pa.Array]) -> pa.Array:
    """Return the pieces of each row back to back; null adds nothing."""
    return pc.binary_join_element_wise(*pieces, b"", null_handling="replace", null_replacement=b"")
