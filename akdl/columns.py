"""Columns of values to the message that carries them over the process line, and back.

This is the work behind `output_writer.write_batch`, and both ways that of a process that predicts.
"""

import datetime
import decimal
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from akdl.wire import BYTES, FLOAT32, FLOAT64, INT64, ColumnValues, Rows, TableColumn

_INTEGERS = {"TINYINT", "SMALLINT", "INT", "BIGINT"}
_UNITS = {"DATE": "D", "TIME": "ms", "TIMESTAMP": "us", "TIMESTAMP_LTZ": "us"}
_NUMBERS = {INT64: "<i8", FLOAT32: "<f4", FLOAT64: "<f8"}
_TYPE = re.compile(r"(ARRAY<)?\s*([A-Z_]+)")


def encode_columns(values: Mapping[str, Any], columns: Sequence[TableColumn]) -> Rows:
    """Return the message for many rows.

    Args:
        values: Column name to its cells: an array or list of length [rows], for an ARRAY column an array of shape
            [rows, n] or a list of lists. None, NaT, and cells that a masked array masks, are null; NaN is a number.
            Datetimes for TIMESTAMP_LTZ are in UTC unless they have a time zone.
        columns: The columns there are.

    Raises:
        ValueError: An unknown column, columns of different length, or cells of the wrong shape.
        TypeError: Cells that do not fit the type of their column.
    """
    types = {column.name: column.type for column in columns}
    unknown = sorted(set(values) - set(types))
    if unknown:
        raise ValueError(f"unknown column {_list(unknown)}; outputSchemaStr has {_list(types)}")
    if not values:
        raise ValueError(f"no column was given; outputSchemaStr has {_list(types)}")
    encoded = [_encode(name, types[name], cells) for name, cells in values.items()]
    lengths = {name: rows for name, (rows, _) in zip(values, encoded)}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns have different numbers of rows: {lengths}")
    return Rows(rows=encoded[0][0], columns=[message for _, message in encoded])


def decode_columns(message: Rows, columns: Sequence[TableColumn]) -> Dict[str, Any]:
    """Return the cells of a message by column: what `encode_columns` was given.

    Numbers and booleans are arrays of shape [rows], texts and bytes lists, and so are columns with nulls, which are None. An
    ARRAY column is an array of shape [rows, n] where all its cells have n elements, else a list of arrays or lists. DATE,
    TIME and TIMESTAMP are the integers that travel.

    Raises:
        ValueError: An unknown column, or counts that do not agree.
    """
    types = {column.name: column.type for column in columns}
    unknown = sorted({column.name for column in message.columns} - set(types))
    if unknown:
        raise ValueError(f"unknown column {_list(unknown)}; expected {_list(types)}")
    return {column.name: _decode(column, types[column.name], message.rows) for column in message.columns}


def _decode(column: ColumnValues, sql_type: str, rows: int) -> Any:
    found = _TYPE.match(sql_type)
    assert found is not None, sql_type
    values = _values(column, found.group(2))
    cells = _cells(values, np.frombuffer(column.cell_lengths, "<u4")) if found.group(1) else values
    valid = np.frombuffer(column.valid, "?") if column.valid else np.ones(rows, bool)
    if len(valid) != rows or int(valid.sum()) != len(cells):
        raise ValueError(
            f"column {column.name!r} ({sql_type}): expected {rows} rows, got {len(valid)}, of them "
            f"{int(valid.sum())} not null, and {len(cells)} cells"
        )
    if len(cells) == rows:
        return cells
    result: List[Any] = [None] * rows
    for row, cell in zip(np.flatnonzero(valid), cells):
        result[row] = cell
    return result


def _values(column: ColumnValues, kind: str) -> Any:
    if column.type != BYTES:
        numbers = np.frombuffer(column.values, _NUMBERS[column.type])
        return numbers.astype(bool) if kind == "BOOLEAN" else numbers
    ends = np.cumsum(np.frombuffer(column.value_lengths, "<u4"), dtype=np.int64).tolist()
    data = column.values
    pieces = [data[start:end] for start, end in zip([0, *ends], ends)]
    return pieces if kind in {"BYTES", "BINARY", "VARBINARY"} else [piece.decode("utf-8") for piece in pieces]


def _cells(values: Any, lengths: "np.ndarray[Any, Any]") -> Any:
    if len(values) != int(lengths.sum()):
        raise ValueError(f"{len(values)} elements for cells of {int(lengths.sum())}")
    if isinstance(values, np.ndarray) and len(lengths) and (lengths == lengths[0]).all():
        return values.reshape(len(lengths), -1) if lengths[0] else np.zeros((len(lengths), 0), values.dtype)
    ends = np.cumsum(lengths, dtype=np.int64).tolist()
    return [values[start:end] for start, end in zip([0, *ends], ends)]


def _encode(name: str, sql_type: str, cells: Any) -> Tuple[int, ColumnValues]:
    found = _TYPE.match(sql_type)
    assert found is not None, sql_type
    is_array, kind = bool(found.group(1)), found.group(2)
    where = f"column {name!r} ({sql_type})"
    array, valid = _present(cells, where)
    message = ColumnValues(name=name)
    rows = len(array)
    if valid is not None:
        message.valid, rows = valid.astype("u1").tobytes(), len(valid)
    if is_array:
        array = _flat(array, message, where)
    elif array.ndim != 1:
        raise ValueError(f"{where}: expected cells of shape [rows], got {list(array.shape)}")
    _fill(message, array, kind, where)
    return rows, message


def _present(cells: Any, where: str) -> Tuple["np.ndarray[Any, Any]", Optional["np.ndarray[Any, Any]"]]:
    """Return the cells that are not null, rows on the first axis, and which rows have one (None when all have)."""
    if hasattr(cells, "numpy"):  # an eager tensor
        cells = cells.numpy()
    if isinstance(cells, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(cells)  # type: ignore[no-untyped-call]
        if mask.ndim == 2:
            partly = np.flatnonzero(mask.any(axis=1) & ~mask.all(axis=1))
            if len(partly):
                raise ValueError(f"{where}: expected rows that are masked as a whole, got null elements in row {partly[0]}")
            mask = mask.any(axis=1)
        return cells.data[~mask], ~mask
    if hasattr(cells, "__array__"):
        cells = np.asarray(cells)
    elif isinstance(cells, (str, bytes)) or not hasattr(cells, "__iter__"):
        raise ValueError(f"{where}: expected one value per row, got the single value {cells!r}")
    else:
        cells = _array(list(cells))
    if cells.ndim == 0:
        raise ValueError(f"{where}: expected one value per row, got the single value {cells.item()!r}")
    if cells.dtype.kind == "M" and cells.ndim == 1:
        valid = ~np.isnat(cells)
        return cells[valid], None if valid.all() else valid
    if cells.dtype != object or cells.ndim > 1:
        return cells, None
    valid = np.array([cell is not None for cell in cells], bool)
    return _array([cell for cell in cells if cell is not None]), None if valid.all() else valid


def _array(cells: List[Any]) -> "np.ndarray[Any, Any]":
    """Return an array of the cells; of objects where numpy would guess: rows of different length, text, nulls."""
    if cells and all(isinstance(cell, (bool, np.bool_)) for cell in cells):
        return np.array(cells, bool)
    if cells and all(isinstance(cell, (int, float, np.number, np.datetime64)) for cell in cells):
        if not any(isinstance(cell, (bool, np.bool_)) for cell in cells):
            return np.array(cells)
    result = np.empty(len(cells), object)
    for index, cell in enumerate(cells):
        result[index] = cell
    return result


def _flat(array: "np.ndarray[Any, Any]", message: ColumnValues, where: str) -> "np.ndarray[Any, Any]":
    """Note the length of each list and return all elements in one array."""
    if array.ndim == 2:
        lengths = np.full(len(array), array.shape[1])
        flat = array.reshape(-1)
    elif array.dtype == object and all(hasattr(cell, "__len__") and not isinstance(cell, (str, bytes)) for cell in array):
        lengths = np.array([len(cell) for cell in array], int)
        flat = _concatenated(list(array))
    else:
        raise ValueError(f"{where}: expected an array of shape [rows, n] or a list of lists")
    message.cell_lengths = lengths.astype("<u4").tobytes()
    return flat


def _concatenated(cells: List[Any]) -> "np.ndarray[Any, Any]":
    """Return the elements of all lists; numpy would turn lists of different types into one type that fits all."""
    dtypes = {cell.dtype if isinstance(cell, np.ndarray) and cell.ndim == 1 else None for cell in cells}
    if len(dtypes) == 1 and None not in dtypes:
        return np.concatenate(cells)
    return _array([element for cell in cells for element in cell])


def _fill(message: ColumnValues, array: "np.ndarray[Any, Any]", kind: str, where: str) -> None:
    """Write the values in the form that the column's type has on the line."""
    if kind == "BOOLEAN":
        _require(array.dtype == bool, where, "booleans", array)
        _numbers(message, array.astype("<i8"), INT64)
    elif kind in _INTEGERS:
        _require(array.dtype.kind in "iu", where, "integers", array)
        _require(array.dtype.kind == "i" or array.max(initial=0) < 2**63, where, "integers below 2**63", array)
        _numbers(message, array.astype("<i8"), INT64)
    elif kind in {"FLOAT", "DOUBLE"}:
        _require(array.dtype.kind in "iuf", where, "numbers", array)
        if not len(array):
            array = array.astype("<f8")  # no cell, or nulls only, may come as objects
        single = kind == "FLOAT" or array.dtype == np.float32
        with np.errstate(over="ignore"):
            numbers = array.astype("<f4" if single else "<f8")
        beyond = np.flatnonzero(np.isinf(numbers) & np.isfinite(array))
        _require(len(beyond) == 0, where, "numbers within its range", array[beyond])
        _numbers(message, numbers, FLOAT32 if single else FLOAT64)
    elif kind in _UNITS and array.dtype.kind == "M":
        _require(kind != "TIME", where, "integers (milliseconds of the day) or text", array)
        _require(not np.isnat(array).any(), where, "no null elements", array[np.isnat(array)])
        points = array.astype(f"datetime64[{_UNITS[kind]}]")
        cut = np.flatnonzero(points != array)
        _require(len(cut) == 0, where, "days" if kind == "DATE" else "at most microseconds", array[cut])
        _numbers(message, points.astype("<i8"), INT64)
    elif kind in _UNITS and array.dtype.kind in "iu":
        _numbers(message, array.astype("<i8"), INT64)
    else:
        _text(message, array, where, kind)


def _numbers(message: ColumnValues, array: "np.ndarray[Any, Any]", value_type: int) -> None:
    message.type = value_type  # type: ignore[assignment]
    message.values = array.tobytes()


def _text(message: ColumnValues, array: "np.ndarray[Any, Any]", where: str, kind: str) -> None:
    message.type = BYTES
    encode = _TO_TEXT.get(kind, _plain_text)
    encoded = []
    for value in array.tolist():
        text = value if isinstance(value, bytes) else encode(value, kind)
        if text is None:
            expected = _EXPECTED.get(kind, "text or bytes")
            raise TypeError(f"{where}: expected {expected}, got {value!r} of type {type(value).__name__}")
        encoded.append(text)
    message.values = b"".join(encoded)
    message.value_lengths = np.array([len(value) for value in encoded], "<u4").tobytes()


def _plain_text(value: Any, kind: str) -> Optional[bytes]:
    return value.encode("utf-8") if isinstance(value, str) else None


def _decimal_text(value: Any, kind: str) -> Optional[bytes]:
    exact = isinstance(value, (str, int, decimal.Decimal)) and not isinstance(value, bool)
    return str(value).encode("utf-8") if exact else None


def _temporal_text(value: Any, kind: str) -> Optional[bytes]:
    if isinstance(value, str):
        return value.encode("utf-8")
    if kind == "TIMESTAMP_LTZ" and getattr(value, "tzinfo", None) is not None:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    if type(value) is datetime.datetime and kind == "DATE" or not isinstance(value, _CLASSES[kind]):
        return None
    return value.isoformat().encode("ascii") if getattr(value, "tzinfo", None) is None else None


_CLASSES: Dict[str, Any] = {
    "DATE": datetime.date, "TIME": datetime.time, "TIMESTAMP": datetime.datetime, "TIMESTAMP_LTZ": datetime.datetime,
}  # fmt: skip
_TO_TEXT = {"DECIMAL": _decimal_text, **dict.fromkeys(_CLASSES, _temporal_text)}
_EXPECTED = {
    "DECIMAL": "decimal.Decimal, int or text",
    "DATE": "datetime64, datetime.date, days or text",
    "TIME": "datetime.time without time zone, milliseconds of the day or text",
    "TIMESTAMP": "datetime64, datetime.datetime without time zone, microseconds or text",
    "TIMESTAMP_LTZ": "datetime64, datetime.datetime, microseconds or text",
}


def _require(fits: bool, where: str, expected: str, array: "np.ndarray[Any, Any]") -> None:
    if not fits and len(array):
        got = ", ".join(sorted({type(value).__name__ for value in array})) if array.dtype == object else str(array.dtype)
        raise TypeError(f"{where}: expected {expected}, got {got} such as {array[0]!r}")


def _list(names: Any) -> str:
    return ", ".join(repr(name) for name in names)
