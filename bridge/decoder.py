"""What a script wrote, to columns for Flink, checked against `outputSchemaStr`. Pure.

The mapping is that of the encoder, the other way. DECIMAL, DATE, TIME and TIMESTAMP leave Python as text, and SQL casts
them: that is exact, and Flink's own stream types for them would convert one cell at a time.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from akdl.wire import BYTES, FLOAT32, FLOAT64, INT64, ColumnValues, Example, Rows
from bridge.exceptions import RowError, SchemaError
from bridge.schema import Column, Kind, Schema, quoted

_RANGES = {
    Kind.BOOLEAN: (0, 1),
    Kind.TINYINT: (-(2**7), 2**7 - 1),
    Kind.SMALLINT: (-(2**15), 2**15 - 1),
    Kind.INT: (-(2**31), 2**31 - 1),
    Kind.TIME: (0, 86_400_000 - 1),
    Kind.DATE: (-719_162, 2_932_896),  # the years 1 to 9999
    Kind.TIMESTAMP: (-62_135_596_800_000_000, 253_402_300_799_999_999),
    Kind.TIMESTAMP_LTZ: (-62_135_596_800_000_000, 253_402_300_799_999_999),
}
_TEXT = {Kind.DECIMAL, Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ}
_LIST_NAMES = {"int64_list": INT64, "float_list": FLOAT32, "bytes_list": BYTES}
_VALUE_NAMES = {INT64: "int64", FLOAT32: "float32", FLOAT64: "float64", BYTES: "bytes"}
_DTYPES = {INT64: "<i8", FLOAT32: "<f4", FLOAT64: "<f8"}

Values = list[Any]


class RowDecoder:
    """Decodes messages of rows.

    Args:
        schema: The columns of `outputSchemaStr`.
        source: Who wrote the rows, for messages.
    """

    def __init__(self, schema: Schema, source: str = "the script") -> None:
        self._source = source
        self._cells = [_Cell(column) for column in schema]
        self._by_name = {cell.name: cell for cell in self._cells}
        self._rows = 0
        self.transport_types = tuple(cell.transport_type for cell in self._cells)
        """SQL types of the cells as `decode` returns them."""
        self.casts = tuple(cell.cast for cell in self._cells)
        """SQL expressions that make the columns of the schema from them."""

    def decode(self, message: Rows) -> list[Values]:
        """Return the columns of a message in the order of the schema, each with a cell per row.

        Raises:
            RowError: A column, type, count or value that does not fit the schema.
        """
        columns = self._decode_columns(message) if message.columns else self._decode_examples(message)
        if len(columns[0]) != message.rows:
            raise RowError(f"{self._source} wrote row {self._rows}: a message of {message.rows} rows holds {len(columns[0])}")
        self._rows += message.rows
        return columns

    def _decode_examples(self, message: Rows) -> list[Values]:
        columns: list[Values] = [[] for _ in self._cells]
        for index, serialized in enumerate(message.examples):
            features = Example.FromString(serialized).features.feature
            known = 0
            for cell, column in zip(self._cells, columns):
                if cell.name in features:
                    known += 1
                    column.append(self._cell_of(cell, features[cell.name], index))
                else:
                    self._refuse_null(cell, index)
                    column.append(None)
            if known != len(features):
                self._refuse_unknown(set(features) - set(self._by_name), index)
        return columns

    def _cell_of(self, cell: _Cell, feature: Any, index: int) -> Any:
        list_name = feature.WhichOneof("kind")
        if list_name is None:
            self._refuse_null(cell, index)
            return None
        values = getattr(feature, list_name).value
        if _LIST_NAMES[list_name] not in cell.accepts or (not cell.is_array and len(values) != 1):
            number = f"{len(values)} value{'s' if len(values) != 1 else ''}"
            self._refuse(cell, index, cell.expected, f"{'an' if list_name[0] == 'i' else 'a'} {list_name} with {number}")
        converted = self._convert(cell, _LIST_NAMES[list_name], list(values), lambda position: index)
        return converted if cell.is_array else converted[0]

    def _decode_columns(self, message: Rows) -> list[Values]:
        given = {column.name: column for column in message.columns}
        self._refuse_unknown(set(given) - set(self._by_name), 0)
        columns = []
        for cell in self._cells:
            if cell.name in given:
                columns.append(self._column_of(cell, given[cell.name], message.rows))
            else:
                self._refuse_null(cell, 0)
                columns.append([None] * message.rows)
        return columns

    def _column_of(self, cell: _Cell, column: ColumnValues, rows: int) -> Values:
        if column.type not in cell.accepts_in_columns:
            self._refuse(cell, 0, cell.expected, f"a batch of {_VALUE_NAMES[column.type]} values")
        valid = np.frombuffer(column.valid, "?") if column.valid else np.ones(rows, bool)
        places = np.flatnonzero(valid)
        try:
            values = _values_of(column)
            ends = np.cumsum(np.frombuffer(column.cell_lengths, "<u4"), dtype=np.int64)
        except ValueError as error:  # a number that is cut off
            self._refuse(cell, 0, "whole numbers of bytes", str(error))
        cells, total = (len(ends), int(ends[-1]) if len(ends) else 0) if cell.is_array else (len(values), len(values))
        if (len(valid), cells, total) != (rows, len(places), len(values)):
            self._refuse(
                cell,
                0,
                f"{rows} rows",
                f"{len(valid)} rows, {len(places)} of them not null, {cells} cells and {len(values)} values",
            )
        if len(places) != rows:
            self._refuse_null(cell, int(np.flatnonzero(~valid)[0]))
        if cell.is_array:
            row_of = places[np.searchsorted(ends, np.arange(len(values)), side="right")] if len(values) else places
            flat = self._convert(cell, column.type, values, lambda position: int(row_of[position]))
            starts = [0, *ends.tolist()]
            converted: Values = [flat[start:end] for start, end in zip(starts, starts[1:])]
        else:
            converted = self._convert(cell, column.type, values, lambda position: int(places[position]))
        if len(places) == rows:
            return converted
        result: Values = [None] * rows
        for place, value in zip(places.tolist(), converted):
            result[place] = value
        return result

    def _convert(self, cell: _Cell, value_type: int, values: Values, row_of: Callable[[int], int]) -> Values:
        try:
            return cell.convert(value_type, values)
        except _BadValueError as bad:
            self._refuse(cell, row_of(bad.position), bad.expected, bad.got)

    def _refuse_null(self, cell: _Cell, index: int) -> None:
        if not cell.nullable:
            self._refuse(cell, index, "a value, since the column is NOT NULL", "none")

    def _refuse(self, cell: _Cell, index: int, expected: str, got: str) -> NoReturn:
        raise RowError(
            f"{self._source} wrote row {self._rows + index}: column {cell.name!r} ({cell.sql}): expected {expected}, got {got}"
        )

    def _refuse_unknown(self, names: set[str], index: int) -> None:
        if names:
            raise RowError(
                f"{self._source} wrote row {self._rows + index}: unknown column {', '.join(map(repr, sorted(names)))}; "
                f"outputSchemaStr has {', '.join(map(repr, self._by_name))}"
            )


class _BadValueError(Exception):
    def __init__(self, position: int, expected: str, got: str) -> None:
        super().__init__()
        self.position, self.expected, self.got = position, expected, got


class _Cell:
    """What one column takes and how it is converted."""

    def __init__(self, column: Column) -> None:
        self.name = column.name
        self.sql = column.type.sql
        self.nullable = column.type.nullable
        self.is_array = column.type.is_array
        self._type = column.type
        kind = column.type.kind
        if kind in {Kind.STRING, Kind.BYTES, Kind.DECIMAL}:
            self.accepts, lists = {BYTES}, "a bytes_list"
        elif kind is Kind.FLOAT:
            self.accepts, lists = {FLOAT32, FLOAT64}, "a float_list"
        elif kind is Kind.DOUBLE:
            self.accepts, lists = {FLOAT32, FLOAT64, BYTES}, "a float_list (or a bytes_list of 8 bytes)"
        elif kind in _TEXT:
            self.accepts, lists = {INT64, BYTES}, "an int64_list (or a bytes_list of text)"
        else:
            self.accepts, lists = {INT64}, "an int64_list"
        self.accepts_in_columns = self.accepts - {BYTES} if kind is Kind.DOUBLE else self.accepts
        self.expected = lists if self.is_array else f"{lists} with 1 value"
        if kind is Kind.BYTES and self.is_array and column.type.element_sql != "BYTES":
            # The code that Flink 2.3 generates for casts of arrays of byte arrays does not compile.
            raise SchemaError(f"the column {self.name!r} is an {self.sql}, which Flink cannot make: take ARRAY<BYTES>")
        element = "STRING" if kind in _TEXT and kind is not Kind.TIMESTAMP_LTZ else kind.value
        self.transport_type = f"ARRAY<{element}>" if self.is_array else element
        # No null gets into an array here, so nothing is lost without its NOT NULL.
        target = f"ARRAY<{column.type.element_sql}>" if self.is_array else column.type.element_sql
        name = quoted(self.name)
        self.cast = name if target == self.transport_type else f"CAST({name} AS {target}) AS {name}"

    def convert(self, value_type: int, values: Values) -> Values:
        """Return the cells, or the elements, for Flink."""
        kind = self._type.kind
        if kind is Kind.STRING:
            return self._texts(values)
        if kind is Kind.BYTES:
            return _each(values, self._bytes)
        if kind is Kind.DECIMAL:
            return _each(values, self._decimal)
        if kind is Kind.DOUBLE and value_type == BYTES:
            return [number for value in values for number in self._exact(value)]
        if kind in _TEXT:
            return self._points_in_time(_each(values, self._point_in_time) if value_type == BYTES else values)
        if kind in _RANGES:
            _check_range(values, *_RANGES[kind])
        if kind is Kind.FLOAT and value_type == FLOAT64:
            _check_float(values)
        return list(map(bool, values)) if kind is Kind.BOOLEAN else values

    def _texts(self, values: Values) -> Values:
        """Decode all at once, 3 times as fast as one by one; which of them is wrong only matters when one is."""
        try:
            texts = list(map(bytes.decode, values))
        except UnicodeDecodeError:
            return _each(values, self._text)
        has_limit = bool(self._type.arguments)
        return _each(values, self._text) if has_limit and max(map(len, texts), default=0) > self._type.arguments[0] else texts

    def _text(self, value: bytes) -> str:
        try:
            text = value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"UTF-8 text\x00bytes that are none ({error.reason} at byte {error.start})") from error
        self._check_length(len(text), "characters")
        return text

    def _bytes(self, value: bytes) -> bytes:
        self._check_length(len(value), "bytes")
        return value

    def _check_length(self, length: int, unit: str) -> None:
        if self._type.arguments and length > self._type.arguments[0]:
            raise ValueError(f"at most {self._type.arguments[0]} {unit}\x00{length}")

    def _decimal(self, value: bytes) -> str:
        precision, scale = self._type.arguments
        try:
            number = decimal.Decimal(value.decode("ascii").strip())
            # Flink's cast would make null of a number with too many digits, and round one with too long a fraction.
            exact = number.quantize(decimal.Decimal(1).scaleb(-scale), context=decimal.Context(prec=100))
        except (UnicodeDecodeError, decimal.InvalidOperation):
            raise ValueError(f"a decimal number as text\x00{value!r}") from None
        if exact != number or len(exact.as_tuple().digits) > precision or not number.is_finite():
            raise ValueError(f"a number of {precision} digits, {scale} of them behind the point\x00{value!r}")
        return format(exact, "f")

    def _exact(self, value: bytes) -> list[float]:
        if len(value) % 8 or (not self.is_array and len(value) != 8):
            raise _BadValueError(0, "8 bytes for each value", f"{len(value)} bytes")
        numbers: list[float] = np.frombuffer(value, "<f8").tolist()
        return numbers

    def _point_in_time(self, value: bytes) -> int:
        """Read text as days, milliseconds of the day or microseconds since 1970. Stricter than numpy, which takes "now"."""
        kind = self._type.kind
        text = value.decode("utf-8", "replace").strip()
        try:
            if not _FORMS[kind].fullmatch(text):
                raise ValueError
            date = "1970-01-01T" if kind is Kind.TIME else ""
            number = int(np.datetime64(date + text.replace("+00:00", "").rstrip("Z"), "us").astype(np.int64))
        except ValueError:
            raise ValueError(f"a {kind.value} as text such as {_EXAMPLES[kind]!r}\x00{value!r}") from None
        if kind is Kind.DATE:
            return number // 86_400_000_000
        if kind is Kind.TIME and number % 1000:
            raise ValueError(f"at most 3 digits behind the second\x00{value!r}")
        return number // 1000 if kind is Kind.TIME else number

    def _points_in_time(self, values: Values) -> Values:
        kind = self._type.kind
        _check_range(values, *_RANGES[kind])
        numbers = np.array(values, np.int64)
        if kind is Kind.DATE:
            days: Values = np.datetime_as_string(numbers.astype("datetime64[D]")).tolist()
            return days
        precision = self._type.arguments[0] if self._type.arguments else 0
        cut = np.flatnonzero(numbers % 10 ** ((3 if kind is Kind.TIME else 6) - precision))
        if len(cut):  # the cast would drop these digits
            raise _BadValueError(int(cut[0]), f"{precision or 'no'} digits behind the second", str(values[cut[0]]))
        if kind is Kind.TIMESTAMP_LTZ:
            return [_instant(value) for value in values]
        if kind is Kind.TIME:
            return [text[11:] for text in np.datetime_as_string(numbers.astype("datetime64[ms]")).tolist()]
        texts = np.datetime_as_string(numbers.astype("datetime64[us]")).tolist()
        return [text.replace("T", " ") for text in texts]


def _instant(microseconds: int) -> Any:
    """Return PyFlink's instant: text would be read in the time zone of the session."""
    from pyflink.common.time import Instant  # late: the rest of this module needs no PyFlink

    seconds, rest = divmod(microseconds, 1_000_000)
    return Instant(seconds, rest * 1000)


_TIME = r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?"
_FORMS = {
    Kind.DATE: re.compile(r"\d{4}-\d\d-\d\d", re.ASCII),
    Kind.TIME: re.compile(_TIME, re.ASCII),
    Kind.TIMESTAMP: re.compile(r"\d{4}-\d\d-\d\d[ T]" + _TIME, re.ASCII),
    Kind.TIMESTAMP_LTZ: re.compile(r"\d{4}-\d\d-\d\d[ T]" + _TIME + r"(Z|\+00:00)?", re.ASCII),
}
_EXAMPLES = {
    Kind.DATE: "2020-01-31",
    Kind.TIME: "23:59:59.123",
    Kind.TIMESTAMP: "2020-01-31 23:59:59.123456",
    Kind.TIMESTAMP_LTZ: "2020-01-31 23:59:59.123456Z",
}


def _each(values: Values, convert: Callable[[bytes], Any]) -> Values:
    result: Values = []
    try:
        for value in values:
            result.append(convert(value))
    except ValueError as error:
        expected, got = str(error).split("\x00")
        raise _BadValueError(len(result), expected, got) from error
    return result


def _check_range(values: Values, smallest: int, largest: int) -> None:
    if values and not (smallest <= min(values) and max(values) <= largest):
        position = next(place for place, value in enumerate(values) if not smallest <= value <= largest)
        raise _BadValueError(position, f"a value from {smallest} to {largest}", str(values[position]))


def _check_float(values: Values) -> None:
    numbers = np.array(values)
    beyond = np.flatnonzero(np.isfinite(numbers) & (np.abs(numbers) > np.finfo("f4").max))
    if len(beyond):
        raise _BadValueError(int(beyond[0]), "a number within the range of FLOAT", str(values[beyond[0]]))


def _values_of(column: ColumnValues) -> Values:
    if column.type != BYTES:
        numbers: Values = np.frombuffer(column.values, _DTYPES[column.type]).tolist()
        return numbers
    ends = np.cumsum(np.frombuffer(column.value_lengths, "<u4"), dtype=np.int64).tolist()
    data = column.values  # asked for once: protobuf copies it each time
    if (ends[-1] if ends else 0) != len(data):
        raise ValueError(f"{len(data)} bytes")
    return [data[start:end] for start, end in zip([0, *ends], ends)]
