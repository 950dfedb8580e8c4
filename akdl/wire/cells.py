"""Conversion between a column of the message `Rows` and arrays. Pure.

The layout is that of `proto/exchange.proto`, and Arrow's, so buffers are copied as wholes: with
numpy here, since the environments of scripts need no pyarrow, and with pyarrow on the Flink side.
"""

from __future__ import annotations

import itertools
from typing import Any, Dict, Iterable, NamedTuple, Sequence

import numpy as np

from akdl.wire import BOOL, BYTES, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, Column
from akdl.wire.byte_arrays import packed_offsets

Array = Any  # the oldest supported numpy has no generic array type
Arrays = Dict[str, Array]  # by name: of columns, or of the inputs or outputs of a model

DTYPES = {INT8: "<i1", INT16: "<i2", INT32: "<i4", INT64: "<i8", FLOAT32: "<f4", FLOAT64: "<f8"}
# Integers are accepted as booleans: 0 and 1.
_KINDS = {
    BOOL: "i",
    BYTES: "bytes",
    **{value_type: np.dtype(dtype).kind for value_type, dtype in DTYPES.items()},
}
UNCUT = (
    "bytes in a list or an array of objects, since numpy cuts NUL at the end of bytes in its other"
    " arrays"
)
_TYPES = {np.dtype(dtype): value_type for value_type, dtype in DTYPES.items()}


class Cells(NamedTuple):
    """One column.

    Args:
        values: Shape [values]: booleans or numbers; for bytes uint8, all values back to back.
            Without ARRAY there is one value per row, and an arbitrary one in a null cell.
        valid: Shape [rows]: which cells are not null; None when all are valid.
        cell_offsets: ARRAY columns only, int32 of shape [rows + 1]: start of each cell's values,
            and the end of the last.
        value_offsets: Columns of bytes only, int32 of shape [values + 1]: start of each value, and
            the end of the last.
    """

    values: Array
    valid: Array | None = None
    cell_offsets: Array | None = None
    value_offsets: Array | None = None


def read_cells(column: Column, rows: int, sent: Any = None) -> Cells:
    """Cells of a column as arrays; numbers are read-only views.

    Args:
        column: A column of a message, which may have been damaged on the way or made by another
            version.
        rows: Rows of the message.
        sent: Expected type of the values; integers of any width fit each other, as floats do. None
            for any type.

    Raises:
        ValueError: The values have another type, or the buffers do not hold so many rows.
    """
    if sent is not None and _KINDS.get(sent) != _KINDS.get(column.type):
        raise ValueError(
            f"the column {column.name!r} has values of an unexpected type ({column.type})"
        )
    # protobuf gives empty bytes for a field that is missing, so an empty mask means that all cells
    # are valid.
    valid = unpacked_bits(column.valid, rows) if column.valid else None
    cell_offsets = np.frombuffer(column.cell_offsets, "<i4") if column.cell_offsets else None
    value_offsets = None
    count = rows if cell_offsets is None else int(cell_offsets[-1])
    if column.type == BYTES:
        values = np.frombuffer(column.values, np.uint8)
        value_offsets = np.frombuffer(column.value_offsets, "<i4")
        # A damaged count may be -1. Then there may be no offset whose value could be read.
        whole = len(value_offsets) == count + 1 > 0 and int(value_offsets[-1]) == len(values)
    elif column.type == BOOL:
        values = unpacked_bits(column.values, count)
        whole = len(values) == count
    elif column.type in DTYPES:
        values = np.frombuffer(column.values, DTYPES[column.type])
        whole = len(values) == count
    else:
        raise ValueError(f"the column {column.name!r} has values of the unknown type {column.type}")
    if (
        (cell_offsets is not None and len(cell_offsets) != rows + 1)
        or (valid is not None and len(valid) != rows)
        or not whole
    ):
        raise ValueError(
            f"the buffers of the column {column.name!r} do not hold {rows} rows of {count} values"
        )
    # Offsets that descend would give cells of other rows silently, since numpy and Python accept
    # slices of any bounds.
    for offsets in (cell_offsets, value_offsets):
        if offsets is not None and (offsets[0] != 0 or (offsets[1:] < offsets[:-1]).any()):
            raise ValueError(
                f"the offsets of the column {column.name!r} do not start at 0 or do not ascend"
            )
    return Cells(values, valid, cell_offsets, value_offsets)


def byte_strings(cells: Cells) -> list[bytes]:
    """Values of a column of bytes, as objects."""
    offsets, data = cells.value_offsets.tolist(), cells.values.tobytes()  # type: ignore[union-attr]
    return [data[start:end] for start, end in zip(offsets, offsets[1:])]


def fill_column(column: Column, name: str, cells: Cells) -> Column:
    """Fill an empty column in place, and return it; assigning a complete column would copy it."""
    column.name = name
    if cells.value_offsets is not None:
        column.type = BYTES
        column.value_offsets = np.asarray(cells.value_offsets, "<i4").tobytes()
        # An array from `joined` is a view of bytes, perhaps a hundred megabytes, which can be used
        # without a copy.
        base = cells.values.base
        column.values = (
            base
            if type(base) is bytes and len(base) == len(cells.values)
            else cells.values.tobytes()
        )
    elif cells.values.dtype == bool:
        column.type = BOOL
        column.values = packed_bits(cells.values)
    else:
        # The types of the message are little-endian, and numpy compares byte orders of types too.
        column.type = _TYPES[cells.values.dtype.newbyteorder("<")]
        column.values = np.ascontiguousarray(cells.values, DTYPES[column.type]).tobytes()
    # A mask without nulls is left out, which every reader takes for valid cells.
    if cells.valid is not None and not cells.valid.all():
        column.valid = packed_bits(cells.valid)
    if cells.cell_offsets is not None:
        column.cell_offsets = np.asarray(cells.cell_offsets, "<i4").tobytes()
    return column


def as_array(value: object) -> Array:
    """`np.asarray`, with texts and bytes as objects.

    An array of numpy's own types cuts NUL at their ends, and gives each one as much room as the
    longest needs.
    """
    # Types of all levels are collected, since lists of texts may be nested: numpy decides by the
    # innermost elements.
    types: set[type] = set()
    level = [value]
    while level:
        types.update(map(type, level))
        level = list(
            itertools.chain.from_iterable(each for each in level if isinstance(each, (list, tuple)))
        )
    return np.asarray(
        value, object if any(issubclass(each, (str, bytes)) for each in types) else None
    )


def is_of_pandas(cells: object) -> bool:
    """Test for a type of pandas' own, such as Int64, string or category, whose nulls numpy does not
    have.
    """
    return hasattr(getattr(cells, "dtype", None), "na_value")


def are_cut(cells: Iterable[object]) -> bool:
    """Test for bytes of numpy's own arrays, which have lost each NUL at their ends."""
    if isinstance(cells, np.ndarray) and cells.dtype != object:
        return bool(cells.dtype.kind == "S")
    elements = cells.reshape(-1).tolist() if isinstance(cells, np.ndarray) else cells
    types = set(map(type, elements))
    return np.bytes_ in types or (
        np.ndarray in types and any(are_cut(each) for each in elements if type(each) is np.ndarray)
    )


def joined(values: Sequence[bytes]) -> Array:
    return np.frombuffer(b"".join(values), np.uint8)


def lengths_of(cells: Sequence[Any]) -> Array:
    return np.fromiter(map(len, cells), np.int64, len(cells))


def spread(values: Array, valid: Array | None) -> Array:
    """Put the values of valid cells at their rows, with zeros in the rows of nulls."""
    if valid is None:
        return values
    # Zeros and not arbitrary memory, because the values of null cells are sent too.
    result = np.zeros(len(valid), values.dtype)
    result[valid] = values
    return result


def offsets_of(lengths: Array, where: str) -> Array:
    """Return offsets from lengths; a ValueError with `where` beyond the 32 bits of a message."""
    offsets = packed_offsets(lengths)
    if offsets[-1] > np.iinfo(np.int32).max:
        raise ValueError(
            f"{where}: expected less than 2 GB in one batch, got {offsets[-1]} bytes or elements"
        )
    return offsets


def packed_bits(booleans: Array) -> bytes:
    # The message counts bits from the least significant one, as Arrow does, padded with zeros to
    # whole bytes.
    whole = np.zeros(-(-len(booleans) // 8) * 8, bool)
    whole[: len(booleans)] = booleans
    # numpy's default order is the reverse, and its argument for the order is new in 1.17.
    return np.packbits(whole.reshape(-1, 8)[:, ::-1]).tobytes()


def unpacked_bits(bits: bytes, count: int) -> Array:
    return (
        np.unpackbits(np.frombuffer(bits, np.uint8))
        .reshape(-1, 8)[:, ::-1]
        .reshape(-1)[:count]
        .astype(bool)
    )
