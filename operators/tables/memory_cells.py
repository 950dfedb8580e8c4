"""Exact conversion of Python cells to Arrow arrays. Pure."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from akdl.serving.number_cells import shown
from akdl.wire import INT32, INT64
from akdl.wire.cells import packed_bits
from akdl.wire.column_type import FLOATS, INTEGERS, MEANINGS, POINTS_IN_TIME, ColumnType, Kind
from bridge.codec.ipc import arrow_schema
from bridge.codec.temporal import points_in_time
from bridge.codec.types import precision_of
from bridge.codec.values import UnfitError, Values
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema

Cells = Any
"""A list of objects, None for null; or a numpy array, NaT for null."""

_ROWS_AT_ONCE = 1 << 16
_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_DAY = _EPOCH.date().toordinal()
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.timezone.utc)
_MICROSECOND = datetime.timedelta(microseconds=1)
_REFUSALS = (pa.ArrowException, TypeError, ValueError, OverflowError)


class _TooLargeError(Exception):
    """An array has more than 2 GB."""


def record_batches(where: str, schema: Schema, columns: Sequence[Cells], rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Yield rows as batches with the types of `bridge.codec.ipc.arrow_schema`; at least one, possibly empty."""
    for start in range(0, rows or 1, _ROWS_AT_ONCE):
        for batch in _batches(where, schema, columns, start, min(rows, start + _ROWS_AT_ONCE)):
            step = max(1, batch.num_rows * size // max(1, batch.nbytes))
            for place in range(0, batch.num_rows or 1, step):
                yield batch.slice(place, step)


def _batches(where: str, schema: Schema, columns: Sequence[Cells], start: int, end: int) -> Iterator[pa.RecordBatch]:
    types = arrow_schema(schema)
    try:
        arrays = [_column(where, *each, start, end) for each in zip(schema, types.types, columns)]
    except _TooLargeError:
        if end - start <= 1:
            raise ConfigurationError(f"{where}: row {start} has a cell of more than 2 GB") from None
        middle = (start + end) // 2
        yield from _batches(where, schema, columns, start, middle)
        yield from _batches(where, schema, columns, middle, end)
        return
    yield pa.RecordBatch.from_arrays(arrays, schema=types)


def _column(where: str, column: Any, arrow_type: pa.DataType, cells: Cells, start: int, end: int) -> pa.Array:
    try:
        return cells_to_arrow(column.type, arrow_type, cells[start:end])
    except UnfitError as bad:
        raise ConfigurationError(
            f"{where}: column {column.name!r} does not fit {column.type.sql}: row {start + bad.position}: "
            f"expected {bad.expected}, got {bad.got}"
        ) from None


def cells_to_arrow(column_type: ColumnType, arrow_type: pa.DataType, cells: Cells) -> pa.Array:
    """Convert cells to an array that represents them exactly, apart from the digits of a FLOAT or DOUBLE."""
    array = (_lists if column_type.is_array else _plain)(column_type, arrow_type, cells)
    if array.null_count and not column_type.nullable:
        place = int(np.asarray(array.is_null()).argmax())
        raise UnfitError(place, "a value, since it is NOT NULL", "null")
    return array


def _lists(column_type: ColumnType, arrow_type: pa.DataType, cells: Sequence[Any]) -> pa.Array:
    valid = np.array([cell is not None for cell in cells], bool)
    lengths = np.zeros(len(cells), np.int64)
    parts: list[Any] = []
    for row, cell in enumerate(cells):
        if cell is None:
            continue
        if not isinstance(cell, (list, tuple, np.ndarray)):
            raise UnfitError(row, "a list or an array", shown(cell))
        part = cell.ravel() if isinstance(cell, np.ndarray) else cell  # elements of a tensor, as in Alink's records
        lengths[row] = len(part)
        parts.append(part)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    if offsets[-1] > np.iinfo(np.int32).max:
        raise _TooLargeError
    element = replace(column_type, is_array=False, nullable=column_type.element_nullable)
    try:
        elements = cells_to_arrow(element, arrow_type.value_type, _joined(parts))
    except UnfitError as bad:
        row = int(np.searchsorted(offsets, bad.position, side="right")) - 1
        raise UnfitError(row, f"an array with {bad.expected} in each element", bad.got) from None
    buffers = [None if valid.all() else pa.py_buffer(packed_bits(valid)), pa.py_buffer(offsets.astype("<i4"))]
    return pa.Array.from_buffers(arrow_type, len(cells), buffers, children=[elements])


def _joined(parts: list[Any]) -> Cells:
    """Elements of all arrays, in which NaN is a number."""
    dtypes = {part.dtype if isinstance(part, np.ndarray) else None for part in parts}
    if len(dtypes) == 1 and next(iter(dtypes)) not in (None, np.dtype(object)):
        return np.concatenate(parts)
    return [None if element is pd.NA or element is pd.NaT else element for part in parts for element in part]


def _plain(column_type: ColumnType, arrow_type: pa.DataType, cells: Cells) -> pa.Array:
    if not len(cells):
        return pa.array([], arrow_type)
    convert = _points if column_type.kind in POINTS_IN_TIME else _CONVERT.get(column_type.kind, _values)
    try:
        array = convert(column_type, arrow_type, cells)
    except _REFUSALS as error:
        if len(cells) > 1:
            for place in range(len(cells)):
                try:
                    _plain(column_type, arrow_type, cells[place : place + 1])
                except UnfitError as bad:
                    raise UnfitError(place, bad.expected, bad.got) from None
            raise
        raise UnfitError(0, _expected(column_type), shown(cells[0])) from error
    if isinstance(array, pa.ChunkedArray):
        raise _TooLargeError
    return array


def _values(column_type: ColumnType, arrow_type: pa.DataType, cells: Cells) -> pa.Array:
    return pa.array(cells, arrow_type)


def _integers(column_type: ColumnType, arrow_type: pa.DataType, cells: Cells) -> pa.Array:
    if not isinstance(cells, np.ndarray) and any(issubclass(type_, (float, np.floating)) for type_ in set(map(type, cells))):
        # Arrow truncates 1.5 in a list, though not in an array.
        return pa.array([_whole(cell) if isinstance(cell, (float, np.floating)) else cell for cell in cells], arrow_type)
    return pa.array(cells, arrow_type)


def _whole(number: Any) -> int:
    if number != np.trunc(number):
        raise ValueError(number)
    return int(number)


def _floats(column_type: ColumnType, arrow_type: pa.DataType, cells: Cells) -> pa.Array:
    wide = pa.array(cells, pa.float64())
    narrow = wide.cast(arrow_type, safe=False)
    beyond = pc.and_(pc.is_finite(wide), pc.invert(pc.is_finite(narrow)))
    return _refused_where(column_type, beyond, cells, narrow)


def _booleans(column_type: ColumnType, arrow_type: pa.DataType, cells: Cells) -> pa.Array:
    if isinstance(cells, np.ndarray) and cells.dtype != bool:
        other = pa.array((cells != 0) & (cells != 1))
        return _refused_where(column_type, other, cells, pa.array(cells == 1, arrow_type))
    return pa.array(cells, arrow_type)


def _strings(column_type: ColumnType, arrow_type: pa.DataType, cells: Cells) -> pa.Array:
    text = pa.array(cells, arrow_type)
    if column_type.arguments and not isinstance(text, pa.ChunkedArray):
        (length,) = column_type.arguments
        text = _refused_where(column_type, pc.greater(pc.utf8_length(text), length), cells, text)
        if column_type.name == "CHAR":
            text = pc.utf8_rpad(text, length)  # like Flink's CAST
    return text


def _binaries(column_type: ColumnType, arrow_type: pa.DataType, cells: Cells) -> pa.Array:
    data = pa.array(cells, pa.binary())
    if column_type.arguments and not isinstance(data, pa.ChunkedArray):
        (length,) = column_type.arguments
        data = _refused_where(column_type, pc.greater(pc.binary_length(data), length), cells, data)
        if column_type.name == "BINARY":  # zeros, like Flink's CAST
            data = pa.array([None if cell is None else cell.ljust(length, b"\0") for cell in data.to_pylist()], arrow_type)
    return data


def _decimals(column_type: ColumnType, arrow_type: pa.DataType, cells: Cells) -> pa.Array:
    numbers = cells.tolist() if isinstance(cells, np.ndarray) else cells
    precision, scale = column_type.arguments
    exact = decimal.Context(prec=100)
    step = decimal.Decimal(1).scaleb(-scale)
    result: list[decimal.Decimal | None] = []
    for number in numbers:
        if number is None:
            result.append(None)
            continue
        if isinstance(number, bool) or not isinstance(number, (decimal.Decimal, int, np.integer)):
            raise TypeError(type(number))
        given = number if isinstance(number, decimal.Decimal) else decimal.Decimal(int(number))
        scaled = given.quantize(step, context=exact) if given.is_finite() else None
        if scaled is None or scaled != given or len(scaled.as_tuple().digits) > precision:
            raise ValueError(number)
        result.append(scaled)
    return pa.array(result, arrow_type)


_CONVERT: dict[Kind, Callable[[ColumnType, pa.DataType, Cells], pa.Array]] = {
    Kind.BOOLEAN: _booleans,
    **dict.fromkeys(INTEGERS, _integers),
    Kind.FLOAT: _floats,
    Kind.STRING: _strings,
    Kind.BYTES: _binaries,
    Kind.DECIMAL: _decimals,
}


def _points(column_type: ColumnType, arrow_type: pa.DataType, cells: Cells) -> pa.Array:
    kind = column_type.kind
    numbers, valid = _points_of_array(kind, cells) if isinstance(cells, np.ndarray) else _points_of_objects(kind, cells)
    bits = b"" if valid.all() else packed_bits(valid)
    if kind is Kind.DATE:
        return points_in_time(Values(INT32, len(numbers), numbers.astype("<i4").tobytes(), None, bits), column_type, arrow_type)
    step = 10 ** (6 - precision_of(column_type))
    _refused_where(column_type, pa.array((numbers % step != 0) & valid), cells, None)
    if kind is Kind.TIME:
        numbers = numbers // 1000
    try:
        return points_in_time(Values(INT64, len(numbers), numbers.astype("<i8").tobytes(), None, bits), column_type, arrow_type)
    except UnfitError as bad:
        raise UnfitError(bad.position, _expected(column_type), shown(cells[bad.position])) from None


def _points_of_array(kind: Kind, cells: Any) -> tuple[Any, Any]:
    if cells.dtype.kind != "M" or kind is Kind.TIME:
        raise TypeError(cells.dtype)
    points = cells.astype(f"datetime64[{MEANINGS[kind].unit}]")
    valid = ~np.isnat(cells)
    if (points.astype(cells.dtype) != cells)[valid].any():
        raise ValueError("more precise than the type")
    return np.where(valid, points.astype(np.int64), 0), valid


def _points_of_objects(kind: Kind, cells: Sequence[Any]) -> tuple[Any, Any]:
    read = {Kind.DATE: _days, Kind.TIME: _clock, Kind.TIMESTAMP: _local, Kind.TIMESTAMP_LTZ: _instant}[kind]
    numbers = np.array([0 if cell is None else read(cell) for cell in cells], np.int64)
    return numbers, np.array([cell is not None for cell in cells], bool)


def _days(cell: Any) -> int:
    if isinstance(cell, datetime.date) and not isinstance(cell, datetime.datetime):
        return cell.toordinal() - _EPOCH_DAY
    days, rest = divmod(_local(cell), 86_400_000_000)
    if rest:
        raise ValueError("it has a time of day")
    return days


def _clock(cell: Any) -> int:
    if not isinstance(cell, datetime.time) or cell.tzinfo is not None:
        raise TypeError(type(cell))
    return ((cell.hour * 60 + cell.minute) * 60 + cell.second) * 1_000_000 + cell.microsecond


def _local(cell: Any) -> int:
    cell = _datetime(cell)
    if cell.tzinfo is not None:
        raise TypeError("it has a time zone")
    return (cell - _EPOCH) // _MICROSECOND  # type: ignore[no-any-return]


def _instant(cell: Any) -> int:
    cell = _datetime(cell)
    return (cell - (_EPOCH if cell.tzinfo is None else _EPOCH_UTC)) // _MICROSECOND  # type: ignore[no-any-return]


def _datetime(cell: Any) -> Any:
    if isinstance(cell, np.datetime64):
        cell = pd.Timestamp(cell)
    if isinstance(cell, pd.Timestamp):
        if cell.nanosecond:
            raise ValueError("it has nanoseconds")
        return cell.to_pydatetime()
    if not isinstance(cell, datetime.datetime):
        raise TypeError(type(cell))
    return cell


def _refused_where(column_type: ColumnType, bad: pa.Array, cells: Cells, array: Any) -> Any:
    if pc.any(bad).as_py():
        position = bad.to_pylist().index(True)
        raise UnfitError(position, _expected(column_type), shown(cells[position]))
    return array


def _expected(column_type: ColumnType) -> str:
    kind, arguments = column_type.kind, column_type.arguments
    if kind is Kind.DECIMAL:
        return f"a decimal.Decimal or int of at most {arguments[0]} digits, {arguments[1]} of them after the decimal point"
    if kind in POINTS_IN_TIME:
        digits = "" if kind is Kind.DATE else f" with at most {precision_of(column_type)} fractional digits"
        return _TIMES[kind] + digits
    if kind in (Kind.STRING, Kind.BYTES):
        unit = "characters" if kind is Kind.STRING else "bytes"
        most = f" of at most {arguments[0]} {unit}" if arguments else ""
        return ("a string" if kind is Kind.STRING else "bytes") + most
    if kind in FLOATS:
        return f"a number within the range of {kind.value}"
    return "a boolean" if kind is Kind.BOOLEAN else f"a whole number within the range of {kind.value}"


_TIMES = {
    Kind.DATE: "a datetime.date, or a datetime at midnight without a time zone",
    Kind.TIME: "a datetime.time without a time zone",
    Kind.TIMESTAMP: "a datetime without a time zone (TIMESTAMP_LTZ accepts time zones)",
    Kind.TIMESTAMP_LTZ: "a datetime (in UTC if it has no time zone)",
}
