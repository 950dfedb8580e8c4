"""Exact conversion of Python cells to Arrow arrays. Pure.

A cell is stored exactly or refused with its row. Arrow's own conversion is used for whole columns,
since it is fast, but it does not say which cell it refuses and truncates some. So a refused column
is halved until the cell is found, and each kind of type refuses what Arrow would change.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from akdl.near_names import short
from akdl.wire import INT64
from akdl.wire.cells import UNCUT, are_cut, packed_bits
from akdl.wire.column_type import FLOATS, INTEGERS, POINTS_IN_TIME, ColumnType, Kind
from akdl.wire.columns import CLASSES
from bridge.codec.first_wrong import first_wrong
from bridge.codec.ipc import arrow_schema
from bridge.codec.temporal import points_in_time
from bridge.codec.types import arrow_type, precision_of
from bridge.codec.values import UnfitError, Values
from bridge.exceptions import ConfigurationError
from bridge.formats.file_columns import cast_cells, declared_column
from bridge.schema import Column, Schema
from operators.flink.arrow_columns import accepted

Cells = Any
"""A list of objects, None for null; a numpy array, NaT for null; or Arrow's cells."""

_Parts = tuple[NDArray[np.bool_], NDArray[np.int64], Cells]
"""Validity and lengths of the lists of a column, and the elements of all."""

# This many rows are converted at a time, so the memory for Arrow's copy does not grow with the
# table.
ROWS_AT_ONCE = 1 << 16
# Arrow's arrays of strings and bytes have offsets of 32 bits.
_MOST_BYTES = (1 << 31) - 1
_REFUSALS = (pa.ArrowException, TypeError, ValueError, OverflowError, UnfitError)


class _TooLargeError(Exception):
    """An array has more than 2 GB."""


def record_batches(
    where: str, schema: Schema, columns: Sequence[Cells], rows: int, size: int, before: int = 0
) -> Iterator[pa.RecordBatch]:
    """Yield rows as batches with the types of `bridge.codec.ipc.arrow_schema`; at least one,
    possibly empty.

    Errors number the rows from `before`.
    """
    # An empty table still makes one batch, from which readers learn the columns.
    for start in range(0, rows or 1, ROWS_AT_ONCE):
        for batch in _batches(
            where, schema, columns, start, min(rows, start + ROWS_AT_ONCE), before
        ):
            # `size` is the wanted number of bytes of a batch. Rows are taken to be of equal size,
            # so a batch may be larger or smaller.
            step = max(1, batch.num_rows * size // max(1, batch.nbytes))
            for place in range(0, batch.num_rows or 1, step):
                yield batch.slice(place, step)


def _batches(
    where: str, schema: Schema, columns: Sequence[Cells], start: int, end: int, before: int
) -> Iterator[pa.RecordBatch]:
    wanted = arrow_schema(schema)

    def converted(column: Column, cells: Cells) -> pa.Array:
        part = cells[start:end]
        if isinstance(part, pa.ChunkedArray):
            part = _joined_chunks(part)
        try:
            return cells_to_arrow(column.type, part)
        except UnfitError as bad:
            raise ConfigurationError(
                f"{where}: column {column.name!r} does not fit {column.type.sql}: row"
                f" {before + start + bad.position}: expected {bad.expected}, got {bad.got}"
            ) from None

    try:
        arrays = list(map(converted, schema, columns))
    except _TooLargeError:
        if end - start <= 1:
            raise ConfigurationError(
                f"{where}: row {before + start} has a cell of more than 2 GB"
            ) from None
        # The size of cells is known only when they are converted, so a batch that is too large is
        # halved.
        middle = (start + end) // 2
        yield from _batches(where, schema, columns, start, middle, before)
        yield from _batches(where, schema, columns, middle, end, before)
        return
    yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def cells_to_arrow(column_type: ColumnType, cells: Cells) -> pa.Array:
    """Convert cells to an array that represents them exactly; a FLOAT may round them.

    Integers beyond 2**53 are refused for both FLOAT and DOUBLE, because Arrow's casts refuse them.
    """
    array = (_lists if column_type.is_array else _plain)(column_type, cells)
    if array.null_count and not column_type.nullable:
        place = int(np.asarray(array.is_null()).argmax())
        raise UnfitError(place, "a value, since it is NOT NULL", "null")
    return array


def _joined_chunks(cells: pa.ChunkedArray) -> pa.Array:
    try:
        return cells.chunk(0) if cells.num_chunks == 1 else cells.combine_chunks()
    # The 32-bit offsets of the joined array would overflow, so the caller halves the rows.
    except pa.ArrowInvalid:
        raise _TooLargeError from None


def _lists(column_type: ColumnType, cells: Cells) -> pa.Array:
    parts_of = _parts_of_lists if isinstance(cells, pa.Array) else _parts_of_objects
    valid, lengths, elements = parts_of(cells)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise _TooLargeError
    element = replace(column_type, is_array=False, nullable=column_type.element_nullable)
    try:
        array = cells_to_arrow(element, elements)
    except UnfitError as bad:
        # The position is that of an element among the elements of all lists. `offsets` leads back
        # to the row, and of equal offsets, which empty lists have, the last one has the element.
        row = int(np.searchsorted(offsets, bad.position, side="right")) - 1
        raise UnfitError(row, f"an array with {bad.expected} in each element", bad.got) from None
    buffers = [
        None if valid.all() else pa.py_buffer(packed_bits(valid)),
        pa.py_buffer(offsets.astype("<i4")),
    ]
    return pa.Array.from_buffers(arrow_type(column_type), len(cells), buffers, children=[array])


def _parts_of_lists(cells: pa.Array) -> _Parts:
    valid = np.asarray(cells.is_valid())
    # A column of nulls alone may have any type, for example Arrow's null type, which has no
    # elements.
    if cells.null_count == len(cells):
        return valid, np.zeros(len(cells), np.int64), []
    if not (
        types.is_list(cells.type)
        or types.is_large_list(cells.type)
        or types.is_fixed_size_list(cells.type)
    ):
        raise UnfitError(
            int(valid.argmax()), "a list or an array", _shown(cells[int(valid.argmax())])
        )
    return (
        valid,
        pc.list_value_length(cells).fill_null(0).to_numpy().astype(np.int64),
        cells.flatten(),
    )


def _parts_of_objects(cells: Sequence[object]) -> _Parts:
    valid = np.array([cell is not None for cell in cells], bool)
    lengths = np.zeros(len(cells), np.int64)
    parts = []
    for row, cell in enumerate(cells):
        if cell is None:
            continue
        if not isinstance(cell, (list, tuple, np.ndarray)):
            raise UnfitError(row, "a list or an array", short(cell))
        # A column has flat lists, so a tensor, as in Alink's records, gives its elements in row
        # order.
        part = cell.ravel() if isinstance(cell, np.ndarray) else cell
        lengths[row] = len(part)
        parts.append(part)
    return valid, lengths, _joined(parts)


def _joined(parts: list[Any]) -> Cells:
    """Elements of all arrays, in which NaN is a number."""
    import pandas as pd

    dtypes = {part.dtype if isinstance(part, np.ndarray) else None for part in parts}
    # Arrays of one dtype are joined by numpy, which keeps NaN a number. Only elements of lists can
    # be pandas' missing values, which stand for null.
    if len(dtypes) == 1 and next(iter(dtypes)) not in (None, np.dtype(object)):
        return np.concatenate(parts)
    return [
        None if element is pd.NA or element is pd.NaT else element
        for part in parts
        for element in part
    ]


def _plain(column_type: ColumnType, cells: Cells) -> pa.Array:
    kind = column_type.kind
    column = declared_column(Column("", column_type))

    def convert(part: Cells) -> pa.Array:
        if not len(part) or (isinstance(part, pa.Array) and part.null_count == len(part)):
            return pa.nulls(len(part), column.arrow)
        part = _as_list_or_array(kind, part)
        if kind in POINTS_IN_TIME:
            return _points(column_type, part)
        return cast_cells(column, _natural(column_type, part))

    # numpy's own type for bytes cuts NUL at the end of each element, so such an array may have lost
    # bytes before it came here.
    if kind is Kind.BYTES and not isinstance(cells, pa.Array) and are_cut(cells):
        raise UnfitError(0, UNCUT, repr(cells[0]))
    try:
        array = convert(cells)
    except _REFUSALS as error:
        place, cause = first_wrong(convert, cells, error, _REFUSALS)
        raise UnfitError(place, _expected(column_type), _shown(cells[place])) from cause
    # pyarrow returns chunks where one array of strings would have more than 2 GB.
    if isinstance(array, pa.ChunkedArray):
        raise _TooLargeError
    return array


def _as_list_or_array(kind: Kind, cells: Cells) -> list[Any] | pa.Array:
    if isinstance(cells, np.ndarray):
        # Arrow takes numpy's own dtypes exactly, also NaT as null. An array of objects is treated
        # like a list, because each of its cells may have another type.
        cells = cells.tolist() if cells.dtype == object else pa.array(cells)
    if not isinstance(cells, pa.Array):
        return cells
    cells = accepted(kind, cells)
    if (
        types.is_large_string(cells.type) or types.is_large_binary(cells.type)
    ) and cells.nbytes > _MOST_BYTES:
        raise _TooLargeError
    return cells


def _shown(cell: object) -> str:
    if not isinstance(cell, pa.Scalar):
        return short(cell)
    try:
        return short(cell.as_py())
    # Python has no such time, for example one in a year after 9999.
    except (ValueError, OverflowError):
        return f"{cell.cast(pa.int64()).as_py()} as {cell.type}"


# Conversions raise any of `_REFUSALS` where a cell does not fit; `_plain` then finds its row.


def _natural(column_type: ColumnType, cells: Cells) -> pa.Array:
    """Cells in a type from which `cast_cells`, the cast of files, reaches the type of the column
    exactly.
    """
    kind = column_type.kind
    if not isinstance(cells, pa.Array):
        if kind is Kind.DECIMAL:
            # Arrow makes decimals of Python's integers, but not of numpy's.
            cells = [int(cell) if isinstance(cell, np.integer) else cell for cell in cells]
        # Arrow truncates 1.5 in a list to an integer, though not in an array.
        has_floats = kind in INTEGERS and any(
            issubclass(type_, (float, np.floating)) for type_ in set(map(type, cells))
        )
        natural = (
            pa.float64()
            if kind in FLOATS or has_floats
            else pa.binary()
            if kind is Kind.BYTES
            else arrow_type(column_type)
        )
        cells = pa.array(cells, natural)
    elif kind in FLOATS:
        # A FLOAT may lose digits of an integer, but Arrow's cast to it refuses such an integer. The
        # way through double allows it.
        cells = cells.cast(pa.float64())
    elif kind is Kind.DECIMAL:
        # DuckDB stores its HUGEINT, which has up to 39 digits, in an array of 38 digits. Flink has
        # no number for these, so they are refused.
        cells.validate(full=True)
    # Flink's CAST pads a BINARY with zeros to its length, so the same is done here.
    if column_type.name == "BINARY":
        wanted = arrow_type(column_type)
        return pa.array(
            [
                None if cell is None else cell.ljust(wanted.byte_width, b"\0")
                for cell in cells.to_pylist()
            ],
            wanted,
        )
    return cells


def _points(column_type: ColumnType, cells: Cells) -> pa.Array:
    kind = column_type.kind
    if not isinstance(cells, pa.Array):
        cells = _points_of_objects(kind, cells)
    if kind is Kind.DATE:
        exact = cells.cast(pa.date32())
        if types.is_timestamp(cells.type):
            # A DATE has no time of day, so a timestamp that does not survive the way to a date and
            # back is refused.
            _refuse(pc.not_equal(exact.cast(cells.type), cells))
    else:
        exact = cells.cast(
            pa.time32("ms") if kind is Kind.TIME else pa.timestamp("us", cells.type.tz)
        )
    # `points_in_time` checks the precision of the type on plain numbers. Nulls become 0 for that,
    # and `bits` remembers them.
    numbers = (
        exact.view(pa.int32() if kind in (Kind.DATE, Kind.TIME) else pa.int64())
        .fill_null(0)
        .to_numpy()
    )
    bits = packed_bits(np.asarray(cells.is_valid())) if cells.null_count else b""
    values = Values(INT64, len(numbers), numbers.astype("<i8", copy=False).tobytes(), None, bits)
    return points_in_time(values, column_type, arrow_type(column_type))


def _points_of_objects(kind: Kind, cells: list[Any]) -> pa.Array:
    """Dates, times or timestamps; Arrow alone would take numbers, and cut off nanoseconds and time
    zones.
    """
    found = set(map(type, cells)) - {type(None)}
    # A list of dates alone is the common case, which Arrow converts exactly.
    if found == {datetime.date} and kind is Kind.DATE:
        return pa.array(cells, pa.date32())
    if found - {CLASSES[kind]}:
        cells = [None if cell is None else _point(kind, cell) for cell in cells]
    # Arrow would convert the time to UTC and drop the zone, so the cell would silently be another
    # local time.
    if kind is not Kind.TIMESTAMP_LTZ and any(cell.tzinfo for cell in cells if cell is not None):
        raise TypeError("it has a time zone")
    zone = "UTC" if kind is Kind.TIMESTAMP_LTZ else None
    return pa.array(cells, pa.time64("us") if kind is Kind.TIME else pa.timestamp("us", zone))


def _point(kind: Kind, cell: Any) -> Any:
    if isinstance(cell, np.datetime64):
        import pandas as pd

        cell = pd.Timestamp(cell)
    # A Timestamp of pandas is a datetime with nanoseconds, which the microseconds of a datetime
    # would drop.
    if not isinstance(cell, CLASSES[kind]) or getattr(cell, "nanosecond", False):
        raise TypeError(type(cell))
    # A datetime is a date too, so the exact type decides. A date among datetimes means midnight.
    return datetime.datetime.combine(cell, datetime.time()) if type(cell) is datetime.date else cell


def _refuse(bad: pa.Array) -> None:
    if pc.any(bad).as_py():
        raise ValueError


def _expected(column_type: ColumnType) -> str:
    kind = column_type.kind
    arguments = column_type.arguments
    if kind is Kind.DECIMAL:
        return (
            f"a decimal.Decimal or int of at most {arguments[0]} digits, {arguments[1]} of them"
            " after the decimal point"
        )
    if kind in POINTS_IN_TIME and kind is not Kind.DATE:
        return f"{_WORDS[kind]} with at most {precision_of(column_type)} fractional digits"
    if arguments and kind in (Kind.STRING, Kind.BYTES):
        unit = "characters" if kind is Kind.STRING else "bytes"
        return f"{_WORDS[kind]} of at most {arguments[0]} {unit}"
    number = "a number (integers up to 2**53)" if kind in FLOATS else "a whole number"
    return _WORDS.get(kind, f"{number} within the range of {kind.value}")


_WORDS = {
    Kind.BOOLEAN: "a boolean",
    Kind.STRING: "a string",
    Kind.BYTES: "bytes",
    Kind.DATE: "a datetime.date, or a datetime at midnight without a time zone",
    Kind.TIME: "a datetime.time without a time zone",
    Kind.TIMESTAMP: "a datetime without a time zone (TIMESTAMP_LTZ accepts time zones)",
    Kind.TIMESTAMP_LTZ: "a datetime (in UTC if it has no time zone)",
}
