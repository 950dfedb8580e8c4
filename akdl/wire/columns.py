"""Conversion between columns of Python values and the message that carries them between processes.

Scripts write rows through it (`output_writer.write_batch`), and models read and write theirs. It
accepts the many forms in which users hold a column: arrays, masked arrays, eager tensors, sparse
tensors and lists. A conversion that would change a value is refused instead, since a wrong value in
a table shows no error.
"""

from __future__ import annotations

import datetime
import decimal
import itertools
from operator import attrgetter
from typing import Any, Iterable, List, Mapping, Union

import numpy as np

from akdl.near_names import listed, short
from akdl.wire import Column, Rows, TableColumn, TableColumns
from akdl.wire.cells import (
    UNCUT,
    Array,
    Cells,
    are_cut,
    byte_strings,
    fill_column,
    is_of_pandas,
    joined,
    lengths_of,
    offsets_of,
    read_cells,
    spread,
)
from akdl.wire.column_type import FLOATS, INTEGERS, MEANINGS, POINTS_IN_TIME, Kind, type_of

# numpy's unsigned types, and signed types that hold their values: messages have signed integers
# only. Of u8, values from 2**63 on are refused before.
_SIGNED = {"u1": "i2", "u2": "i4", "u4": "i8", "u8": "i8"}

Values = Union[Array, List[Any]]
"""An array of numbers, booleans or points in time; a list of other objects."""


def encode_columns(values: Mapping[str, Any], columns: TableColumns) -> Rows:
    """Message with the rows of a batch.

    Args:
        values: Column name to its cells: an array or list of length [rows], for an ARRAY column an
            array of shape [rows, n], a list of lists or a `tf.SparseTensor`. None, NaT, masked
            cells and nulls of pandas' own types are null; NaN is a number. Datetimes for
            TIMESTAMP_LTZ without a time zone are in UTC.
        columns: Columns of the table; columns without `values` are null in all rows.

    Raises:
        TypeError: Values of a column do not fit its type.
        ValueError: An unknown column, or different numbers of rows.
    """
    message = Rows()
    fill_rows(message, values, columns)
    return message


def fill_rows(message: Rows, values: Mapping[str, Any], columns: TableColumns) -> None:
    """Like `encode_columns`, in place: assigning a message to a field would copy it."""
    types = _types_of(values, columns, "outputSchemaStr has")
    lengths = {
        name: _encode(types[name], cells, message.columns.add()) for name, cells in values.items()
    }
    if not lengths:
        raise ValueError(f"no column was given; outputSchemaStr has {listed(types)}")
    message.rows = next(iter(lengths.values()))
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns have different numbers of rows: {lengths}")


def decode_columns(message: Rows, columns: TableColumns) -> dict[str, Any]:
    """Inverse of `encode_columns`: the cells of a message by column.

    Numbers and booleans are read-only arrays of shape [rows]; strings, in UTF-8, and bytes are
    lists of bytes, and columns with nulls (None) are lists too. An ARRAY column is an array of
    shape [rows, n] if all cells have n elements, else a list of arrays or lists. DATE, TIME and
    TIMESTAMP are integers.
    """
    types = _types_of((column.name for column in message.columns), columns, "expected")
    return {
        column.name: _decode(column, types[column.name], message.rows) for column in message.columns
    }


def _types_of(names: Iterable[str], columns: TableColumns, expected: str) -> dict[str, TableColumn]:
    """Return the columns by name; ValueError for a name that is not among them."""
    types = {column.name: column for column in columns}
    unknown = sorted(set(names) - set(types))
    if unknown:
        raise ValueError(f"unknown column {listed(unknown)}; {expected} {listed(types)}")
    return types


def is_utf8(column: TableColumn) -> bool:
    return type_of(column).kind in (Kind.STRING, Kind.DECIMAL)


def _decode(column: Column, table_column: TableColumn, rows: int) -> Any:
    cells = read_cells(column, rows)
    if cells.value_offsets is not None:
        values = byte_strings(cells)
    else:
        values = (
            cells.values.astype(bool)
            if type_of(table_column).kind is Kind.BOOLEAN
            else cells.values
        )
    if cells.cell_offsets is not None:
        decoded = _lists(values, cells.cell_offsets, cells.valid is None)
    else:
        # An array of numbers has no place for None, so a column with nulls becomes a list.
        decoded = values if cells.valid is None or isinstance(values, list) else values.tolist()
    if cells.valid is not None:
        for row in np.flatnonzero(~cells.valid).tolist():
            decoded[row] = None
    return decoded


def _lists(values: Values, offsets: Array, all_valid: bool) -> Any:
    rows, width = len(offsets) - 1, int(offsets[1]) if len(offsets) > 1 else 0
    if rows and all_valid and (np.diff(offsets) == width).all():
        # With numpy's own type for bytes, NUL at their ends would be cut.
        array = np.array(values, object) if isinstance(values, list) else values
        return array.reshape(rows, width)
    places = offsets.tolist()
    return [values[start:end] for start, end in zip(places, places[1:])]


def _encode(table_column: TableColumn, cells: Any, column: Column) -> int:
    column_type = type_of(table_column)
    where = f"column {table_column.name!r} ({table_column.type})"
    if column_type.is_array:
        lengths, values, valid = _arrays(cells, where)
        of_rows = spread(lengths, valid)
        rows, cell_offsets, has_value = len(of_rows), offsets_of(of_rows, where), None
    else:
        values, valid = _present(cells, where)
        if isinstance(values, np.ndarray) and values.ndim != 1:
            raise ValueError(f"{where}: expected cells of shape [rows], got {list(values.shape)}")
        rows, cell_offsets, has_value = len(values if valid is None else valid), None, valid
    try:
        encoded, lengths_of_values = _encoded(values, column_type.kind, where)
    except UnicodeEncodeError as error:  # a lone surrogate
        raise ValueError(f"{where}: {error}") from None
    if lengths_of_values is None:
        filled = Cells(spread(encoded, has_value), valid, cell_offsets)
    else:
        filled = Cells(
            encoded, valid, cell_offsets, offsets_of(spread(lengths_of_values, has_value), where)
        )
    fill_column(column, table_column.name, filled)
    return rows


def _present(cells: Any, where: str) -> tuple[Values, Array | None]:
    """Valid cells, rows on the first axis, and the mask of valid rows (None for all).

    Nulls leave here, before any conversion, because a None among numbers would make numpy fall back
    to objects.
    """
    if hasattr(cells, "numpy"):  # an eager tensor
        cells = cells.numpy()
    if is_of_pandas(cells):
        nulls = np.asarray(cells.isna(), bool)
        if nulls.any():
            return _present(cells[~nulls], where)[0], ~nulls
    if isinstance(cells, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(cells)  # type: ignore[no-untyped-call]
        if mask.ndim == 2:
            # An ARRAY may be null as a whole, and its elements may not.
            partly = np.flatnonzero(mask.any(axis=1) & ~mask.all(axis=1))
            if len(partly):
                raise ValueError(
                    f"{where}: expected rows that are masked as a whole, got null elements in row"
                    f" {partly[0]}"
                )
            mask = mask.any(axis=1)
        present = cells.data[~mask]
        return (
            _array(present.tolist()) if present.dtype == object and present.ndim == 1 else present
        ), ~mask
    if hasattr(cells, "__array__"):
        cells = np.asarray(cells)
        if cells.ndim == 0:
            raise ValueError(
                f"{where}: expected one value per row, got the single value {cells.item()!r}"
            )
        if cells.dtype == object and cells.ndim == 1:
            cells = cells.tolist()
    elif isinstance(cells, (str, bytes)) or not hasattr(cells, "__iter__"):
        raise ValueError(f"{where}: expected one value per row, got the single value {cells!r}")
    else:
        cells = list(cells)
    if isinstance(cells, np.ndarray):  # NaT is null
        valid = ~np.isnat(cells) if cells.dtype.kind == "M" and cells.ndim == 1 else None
        return (cells, None) if valid is None or valid.all() else (cells[valid], valid)
    if type(None) not in set(map(type, cells)):
        values = _array(cells)
        # The list has become an array, whose NaT are null as well.
        return (values, None) if isinstance(values, list) else _present(values, where)
    valid = np.array([cell is not None for cell in cells], bool)
    return _array([cell for cell in cells if cell is not None]), valid


def _arrays(cells: object, where: str) -> tuple[Array, Values, Array | None]:
    """Length of each valid cell, all elements, and the mask of valid rows (None for all)."""
    if hasattr(cells, "dense_shape"):
        return (*flat_sparse(cells, where), None)
    values, valid = _present(cells, where)
    return (*_flat(values, where), valid)


def flat_sparse(tensor: Any, where: str) -> tuple[Array, Values]:
    """Length of each row of a `tf.SparseTensor`, the form in which scripts read ARRAY columns, and
    all elements.
    """
    # Each value has its row and its place in the row. Without gaps the places count from 0 in each
    # row, so the lengths alone say where a value belongs.
    rows, places = tensor.indices.numpy().T
    lengths = np.bincount(rows, minlength=int(tensor.dense_shape[0]))
    if (rows[1:] < rows[:-1]).any() or (
        places != np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    ).any():
        raise ValueError(f"{where}: expected a SparseTensor without gaps in its rows")
    values = tensor.values.numpy()
    return lengths, _listed(values)


def _array(cells: list[Any]) -> Values:
    """Array of booleans, numbers or points in time; other and mixed objects stay a list.

    Booleans among numbers stay a list too, which the column's type then refuses: numpy would make
    True a 1 silently.
    """
    types = set(map(type, cells))
    if not types:
        return cells
    if all(issubclass(type_, _BOOLEANS) for type_ in types):
        return np.array(cells, bool)
    if all(issubclass(type_, _NUMBERS) and not issubclass(type_, _BOOLEANS) for type_ in types):
        array = np.array(cells)
        return cells if array.dtype == object else array  # integers beyond 64 bits
    return cells


def _listed(values: Array) -> Values:
    """Give the objects of an array the type that their values have in common."""
    return _array(values.tolist()) if values.dtype == object else values


def _flat(values: Values, where: str) -> tuple[Array, Values]:
    """Length of each cell, and all elements in one array or list."""
    if isinstance(values, np.ndarray):
        if values.ndim == 2:
            lengths = np.full(len(values), values.shape[1])
            return lengths, _listed(values.reshape(-1))
    else:
        types = set(map(type, values))
        if all(
            hasattr(type_, "__len__") and not issubclass(type_, (str, bytes)) for type_ in types
        ):
            return lengths_of(values), _concatenated(values, types)
    raise ValueError(f"{where}: expected an array of shape [rows, n] or a list of lists")


def _concatenated(cells: list[Any], types: set[type]) -> Values:
    """Elements of all lists; numpy would convert lists of different types to one common type."""
    if (
        types == {np.ndarray}
        and set(map(attrgetter("ndim"), cells)) == {1}
        and len(set(map(attrgetter("dtype"), cells))) == 1
    ):
        array = np.concatenate(cells)
        return _listed(array)
    return _array(list(itertools.chain.from_iterable(cells)))


def _encoded(values: Values, kind: Kind, where: str) -> tuple[Array, Array | None]:
    """Values in the form of the column's type in the message; for bytes also the length of each."""
    dtype = values.dtype if isinstance(values, np.ndarray) else np.dtype(object)
    if kind is Kind.BOOLEAN:
        _require(dtype.kind == "b", where, "booleans", values)
        return np.asarray(values, bool), None
    if kind in INTEGERS:
        _require(dtype.kind in "iu", where, "integers", values)
        return _integers(values, where), None
    if kind in FLOATS:
        _require(dtype.kind in "iuf", where, "numbers", values)
        return (
            # float32 values of a DOUBLE column are sent as they are, in half of the bytes; the
            # reader widens them without a loss.
            _floats(values, "<f4" if kind is Kind.FLOAT or dtype == np.float32 else "<f8", where),
            None,
        )
    if kind in POINTS_IN_TIME and dtype.kind == "M":
        return _points_in_time(values, kind, where), None
    if kind in POINTS_IN_TIME and dtype.kind in "iu":
        return _integers(values, where), None
    if kind is Kind.BYTES:
        _require(not are_cut(values), where, UNCUT, values)
    return _bytes(values if isinstance(values, list) else values.tolist(), kind, where)


def _integers(values: Values, where: str) -> Array:
    array = np.asarray(values) if len(values) else np.zeros(0, "<i8")
    if array.dtype.kind == "i":
        return array
    _require(array.dtype.itemsize < 8 or array.max() < 2**63, where, "integers below 2**63", array)
    return array.astype(_SIGNED[array.dtype.str[1:]])


def _floats(values: Values, dtype: str, where: str) -> Array:
    array = np.asarray(values) if len(values) else np.zeros(0, dtype)
    if array.dtype == dtype:
        return array
    # numpy would only warn, and the values that became infinite are found below.
    with np.errstate(over="ignore"):
        numbers = array.astype(dtype)
    # An infinity of the script stays one; only a finite number that became infinite is refused.
    beyond = np.isinf(numbers)
    if beyond.any():
        beyond &= np.isfinite(array)
        _require(not beyond.any(), where, "numbers within its range", array[beyond])
    return numbers


def _points_in_time(array: Array, kind: Kind, where: str) -> Array:
    _require(kind is not Kind.TIME, where, "integers (milliseconds of the day) or strings", array)
    _require(not np.isnat(array).any(), where, "no null elements", array[np.isnat(array)])
    # A conversion to a coarser unit cuts silently, and one to a finer unit wraps around, so the
    # values are converted back. Comparing the two units would wrap around in the same way.
    points = array.astype(f"datetime64[{MEANINGS[kind].unit}]")
    cut = np.flatnonzero(points.astype(array.dtype) != array)
    expected = "days" if kind is Kind.DATE else "at most microseconds that fit into 64 bits"
    _require(len(cut) == 0, where, expected, array[cut])
    return points.astype("<i8")


def _bytes(values: list[Any], kind: Kind, where: str) -> tuple[Array, Array]:
    types = set(map(type, values))
    # The types of all values are found first: a column of one type is encoded without Python code
    # for each value.
    if types == {str}:
        text = "".join(values)
        data = text.encode("utf-8")
        # ASCII strings are as long as their bytes, so all of them are encoded in one call.
        if len(data) == len(text):
            return np.frombuffer(data, np.uint8), lengths_of(values)
        values = list(map(str.encode, values))
    elif types != {bytes}:
        to_bytes = _TO_BYTES.get(kind, _string)
        encoded = [value if isinstance(value, bytes) else to_bytes(value, kind) for value in values]
        if None in encoded:
            wrong, expected = values[encoded.index(None)], _EXPECTED.get(kind, "a string or bytes")
            raise TypeError(
                f"{where}: expected {expected}, got {wrong!r} of type {type(wrong).__name__}"
            )
        values = encoded
    return joined(values), lengths_of(values)


def _string(value: Any, kind: Kind) -> bytes | None:
    return value.encode("utf-8") if isinstance(value, str) else None


def _decimal_string(value: Any, kind: Kind) -> bytes | None:
    exact = isinstance(value, (str, int, decimal.Decimal)) and not isinstance(value, bool)
    return str(value).encode("utf-8") if exact else None


def _temporal_string(value: Any, kind: Kind) -> bytes | None:
    if isinstance(value, str):
        return value.encode("utf-8")
    if kind is Kind.TIMESTAMP_LTZ and getattr(value, "tzinfo", None) is not None:
        value = value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    # A datetime is a date in Python, and would lose its time in a DATE column.
    if (type(value) is datetime.datetime and kind is Kind.DATE) or not isinstance(
        value, CLASSES[kind]
    ):
        return None
    return value.isoformat().encode("ascii") if getattr(value, "tzinfo", None) is None else None


_BOOLEANS = (bool, np.bool_)
_NUMBERS = (int, float, np.number, np.datetime64)
CLASSES: dict[Kind, Any] = {
    Kind.DATE: datetime.date,
    Kind.TIME: datetime.time,
    Kind.TIMESTAMP: datetime.datetime,
    Kind.TIMESTAMP_LTZ: datetime.datetime,
}
_TO_BYTES = {Kind.DECIMAL: _decimal_string, **dict.fromkeys(CLASSES, _temporal_string)}
_EXPECTED = {
    Kind.DECIMAL: "decimal.Decimal, int or a string",
    Kind.DATE: "datetime64, datetime.date, days or a string",
    Kind.TIME: "datetime.time without time zone, milliseconds of the day or a string",
    Kind.TIMESTAMP: "datetime64, datetime.datetime without time zone, microseconds or a string",
    Kind.TIMESTAMP_LTZ: "datetime64, datetime.datetime, microseconds or a string",
}


def _require(fits: Any, where: str, expected: str, values: Values) -> None:
    # A column without values has no type to check.
    if not fits and len(values):
        got = (
            ", ".join(sorted({type(value).__name__ for value in values}))
            if isinstance(values, list)
            else str(values.dtype)
        )
        raise TypeError(f"{where}: expected {expected}, got {got} such as {short(values[0])}")
