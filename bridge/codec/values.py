"""The values of one column of a message: one per row, or the elements of all its arrays. Pure.

The buffers of a message become buffers of Arrow without a copy, and Arrow reads them without a
check. A wrong length or offset would read memory of this process, so both are checked first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from akdl.wire import BOOL, BYTES, Column
from akdl.wire.cells import DTYPES, unpacked_bits
from akdl.wire.exchange_pb2 import ValueType


class UnfitError(Exception):
    """A value that its column cannot hold. `ColumnDecoder` adds the row and the column to it."""

    def __init__(self, position: int, expected: str, got: str) -> None:
        super().__init__(f"value {position}: expected {expected}, got {got}")
        self.position = position
        self.expected = expected
        self.got = got


class Values:
    """Values in the layout of the message; the data at a null is undefined.

    `offsets` (BYTES only, int32) are the start of each value and the end of the last one. `bits`
    mark values that are not null.
    """

    def __init__(
        self, value_type: ValueType, count: int, data: bytes, offsets: Any = None, bits: bytes = b""
    ) -> None:
        self.value_type = value_type
        self.count = count
        self.data = data
        self.offsets = offsets
        self.bits = bits
        self.validity = pa.py_buffer(bits) if bits else None

    @cached_property
    def numbers(self) -> NDArray[Any]:
        return np.frombuffer(self.data, DTYPES[self.value_type])

    @cached_property
    def lengths(self) -> NDArray[np.int32]:
        return np.diff(self.offsets)

    @cached_property
    def is_valid(self) -> NDArray[np.bool_]:
        if not self.bits:
            return np.ones(self.count, bool)
        return unpacked_bits(self.bits, self.count)  # type: ignore[no-any-return]

    def binary(self) -> pa.Array:
        """Values of BYTES as an array of Arrow, which shares their buffers."""
        buffers = [self.validity, pa.py_buffer(self.offsets), pa.py_buffer(self.data)]
        return pa.Array.from_buffers(pa.binary(), self.count, buffers)

    def array(self, arrow_type: pa.DataType, data: Any) -> pa.Array:
        """Array of a type of one width with the nulls of these values; `data` has the values."""
        return pa.Array.from_buffers(arrow_type, self.count, [self.validity, pa.py_buffer(data)])

    def refuse_where(
        self, bad: NDArray[np.bool_], expected: str, got: Callable[[int], str]
    ) -> None:
        """Raise UnfitError for the first value that is bad and not null; `got` shows it."""
        if bad.any():
            # The data at a null is undefined, so it may look bad.
            bad = bad & self.is_valid
            position = int(bad.argmax())
            if bad[position]:
                raise UnfitError(position, expected, got(position))

    def check_range(self, numbers: NDArray[Any], smallest: int, largest: int) -> None:
        """Raise UnfitError for the first number outside of a range."""
        # If the smallest and the largest number fit, all do, so a good column costs two passes and
        # no array of marks.
        if len(numbers) and (int(numbers.min()) < smallest or int(numbers.max()) > largest):
            wide = numbers.astype(np.int64)
            bad = (wide < smallest) | (wide > largest)
            self.refuse_where(
                bad, f"a value from {smallest} to {largest}", lambda position: str(wide[position])
            )


def read_values(message: Column, count: int, bits: bytes = b"") -> Values:
    """Values of a column; UnfitError at position 0 where the lengths of its buffers do not
    agree.
    """
    data = message.values
    if message.type == BYTES:
        offsets = read_offsets(message.value_offsets, count, "values")
        if offsets[-1] != len(data):
            _disagree(f"{offsets[-1]} bytes", f"{len(data)}")
        values = Values(BYTES, count, data, offsets, bits)
        # Other code relies on this: `to_arrow` spreads doubles over the rows by their lengths, for
        # example.
        if bits and values.lengths[~values.is_valid].any():
            _disagree("no bytes where a value is null", "some")
        return values
    if message.type == BOOL:
        if len(data) != -(-count // 8):
            _disagree(f"{count} values", f"{8 * len(data)}")
    else:
        width = np.dtype(DTYPES[message.type]).itemsize
        if len(data) % width:
            _disagree("whole numbers of bytes", f"{len(data)} bytes")
        if len(data) != count * width:
            _disagree(f"{count} values", f"{len(data) // width}")
    return Values(message.type, count, data, None, bits)


def read_offsets(data: bytes, count: int, unit: str) -> NDArray[np.int32]:
    """Offsets of `count` values or cells, and the end of the last one; UnfitError at position 0
    where they are wrong.
    """
    if len(data) != 4 * (count + 1):
        _disagree(f"{count} {unit}", f"{len(data)} bytes of offsets")
    offsets = np.frombuffer(data, "<i4")
    # With other offsets, Arrow would read beyond its buffers.
    if offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any():
        _disagree(f"offsets of {unit} that begin at 0 and do not decrease", "other offsets")
    return offsets


def _disagree(expected: str, got: str) -> NoReturn:
    raise UnfitError(0, expected, got)
