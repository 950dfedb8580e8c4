"""Record batches to the message `Rows`: input of a script or a model. Pure.

The message has Arrow's layout, so a column's buffers are copied once, as wholes, and no cell is
touched. What differs is what Arrow permits and the message does not: offsets that begin above 0 in
a slice, data under nulls, and bitmaps that begin in the middle of a byte.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from akdl.wire import BOOL, BYTES
from akdl.wire.byte_arrays import packed_offsets
from akdl.wire.column_type import MEANINGS, Kind
from akdl.wire.serialized import ColumnBuffers, serialized_rows
from bridge.codec.decimals import plain_text
from bridge.codec.first_wrong import first_wrong
from bridge.exceptions import RowError
from bridge.schema import Column, Schema

_NULL_ELEMENT = (
    "the array holds a null, which a list of a tf.train.Example cannot: remove or replace the nulls"
    " in SQL, for example with ARRAY_REMOVE"
)


def to_columns(batch: pa.RecordBatch, schema: Schema, where: str = "the input") -> bytes:
    """Serialize a batch as the message `Rows`.

    Args:
        batch: Rows, perhaps a slice, in the types of `bridge.codec.ipc.arrow_schema`.
        schema: The columns, in the order of the batch.
        where: Origin of the rows, with which errors begin.

    Raises:
        RowError: A cell cannot be sent, such as an array with a null. The error has its row in
            this batch.
    """
    columns = []
    for column, cells in zip(schema, batch.columns):
        try:
            columns.append(_buffers(column, cells))
        except pa.ArrowException as error:
            row, _ = first_wrong(partial(_buffers, column), cells, error)
            raise RowError(
                f"{where}: column {column.name!r} ({column.type.sql}): row {row} of a batch:"
                f" {error}"
            ) from error
    return serialized_rows(batch.num_rows, columns)


def _buffers(column: Column, cells: pa.Array) -> ColumnBuffers:
    """Return the fields of the message `Column`; pa.ArrowException where a cell cannot be sent."""
    kind = column.type.kind
    value_type = MEANINGS[kind].sent
    valid = _bits(cells.buffers()[0], cells.offset, len(cells)) if cells.null_count else b""
    cell_offsets: Any = b""
    if column.type.is_array:
        cell_offsets, cells = _elements(cells)
        if cells.null_count:
            raise pa.ArrowInvalid(_NULL_ELEMENT)
    cells = _cast(cells, kind)
    value_offsets: Any = b""
    if value_type == BYTES:
        value_offsets, values = (
            _fixed_bytes if pa.types.is_fixed_size_binary(cells.type) else _bytes
        )(cells)
    elif value_type == BOOL:
        values = _bits(cells.buffers()[1], cells.offset, len(cells))
    else:
        width = cells.type.bit_width // 8
        values = _part(cells.buffers()[1], cells.offset * width, len(cells) * width)
    return ColumnBuffers(column.name, value_type, valid, cell_offsets, value_offsets, values)


def _cast(values: pa.Array, kind: Kind) -> pa.Array:
    """Bring a type with several units to the one unit in which scripts and models get it."""
    if kind is Kind.DECIMAL:
        return plain_text(values)
    if kind is Kind.TIME:
        return values.cast(pa.time32("ms"))
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
        return values.cast(pa.timestamp("us"))
    return values


def _elements(lists: pa.Array) -> tuple[NDArray[np.int32], pa.Array]:
    """Return the offsets of the cells of an array column, from 0 on, and all elements."""
    offsets = _offsets(lists)
    # In a slice, `values` still has the elements of all rows of the array.
    start = int(offsets[0])
    elements = lists.values.slice(start, int(offsets[-1]) - start)
    lengths = np.diff(offsets)
    if _is_under_null(lists, lengths):
        # Unlike `values`, `flatten` leaves out the elements of null cells.
        elements = lists.flatten()
        lengths[np.asarray(lists.is_null())] = 0
        return packed_offsets(lengths).astype(np.int32), elements
    return offsets - start if start else offsets, elements


def _bytes(values: pa.Array) -> tuple[NDArray[np.int32], memoryview]:
    """Return the offsets of texts or bytes from 0 on, and all their bytes."""
    offsets = _offsets(values)
    # Nulls that are filled with empty values get new buffers, without the bytes below them.
    if _is_under_null(values, np.diff(offsets)):
        values = values.cast(pa.binary()).fill_null(b"")
        offsets = _offsets(values)
    start = int(offsets[0])
    end = int(offsets[-1])
    return offsets - start if start else offsets, _part(values.buffers()[2], start, end - start)


def _fixed_bytes(values: pa.Array) -> tuple[NDArray[np.int32], Any]:
    """Return offsets and bytes of values of one width, which have no offsets in Arrow.

    Arrow's cast to values with offsets crashes at slices: apache/arrow#41306.
    """
    size = len(values)
    width = values.type.byte_width
    data = _part(values.buffers()[1], values.offset * width, size * width)
    lengths = np.full(size, width, np.int32)
    if values.null_count:
        valid = np.asarray(values.is_valid())
        lengths[~valid] = 0
        data = np.frombuffer(data, np.uint8).reshape(size, width)[valid].tobytes()
    return packed_offsets(lengths).astype(np.int32), data


def _is_under_null(values: pa.Array, lengths: NDArray[np.int32]) -> bool:
    """True if null cells have elements or bytes; Arrow permits them, the message does not."""
    return bool(values.null_count and lengths[np.asarray(values.is_null())].any())


def _offsets(values: pa.Array) -> NDArray[np.int32]:
    # An array without values may have no buffer of offsets at all.
    if len(values) == 0:
        return np.zeros(1, np.int32)
    return np.frombuffer(values.buffers()[1], "<i4", len(values) + 1, 4 * values.offset)


def _bits(bits: Any, start: int, count: int) -> Any:
    """Return a bitmap of `count` bits from bit `start` on, with zeros behind the last bit."""
    # Whole bytes need no copy. Otherwise the bits are shifted, and bits of other rows left out.
    if start % 8 == 0 and count % 8 == 0:
        return _part(bits, start // 8, count // 8)
    held = np.frombuffer(bits, np.uint8, -(-(start + count) // 8) - start // 8, start // 8)
    return np.packbits(
        np.unpackbits(held, bitorder="little")[start % 8 :][:count], bitorder="little"
    ).tobytes()


def _part(buffer: Any, start: int, size: int) -> memoryview:
    return memoryview(buffer)[start : start + size] if size else memoryview(b"")
