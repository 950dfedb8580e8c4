"""The message `Rows` to Arrow arrays, step 7 on the path of a row. Pure.

A script, or a model, may have written anything, and Arrow and Flink read buffers without a check.
So each column is checked here against the declared type before it becomes an array, by operations
on whole columns. Single cells are read only to name the one that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from akdl.wire import BOOL, BYTES, FLOAT64, Rows
from akdl.wire import Column as ColumnMessage
from akdl.wire.cells import packed_bits
from akdl.wire.column_type import FLOATS, INTEGERS, POINTS_IN_TIME, Kind
from akdl.wire.exchange_pb2 import ValueType
from bridge.codec.decimals import from_text
from bridge.codec.ipc import arrow_schema
from bridge.codec.temporal import points_in_time
from bridge.codec.types import FORMS
from bridge.codec.values import UnfitError, Values, read_offsets, read_values
from bridge.exceptions import RowError
from bridge.schema import Column, Schema

_DOUBLE_BYTES = 8


class ColumnDecoder:
    """Decoder of the messages of one writer, whose rows it counts for errors.

    Args:
        schema: The declared columns of the output.
        source: Name of the writer, with which errors begin.
    """

    def __init__(self, schema: Schema, source: str = "the script") -> None:
        self.arrow_schema = arrow_schema(schema)
        """The names and types of the arrays."""
        self._source = source
        self._readers = [
            _Reader(column, field.type) for column, field in zip(schema, self.arrow_schema)
        ]
        self._names = schema.names
        self._rows = 0

    def decode(self, message: Rows) -> list[pa.Array]:
        """Return the columns of a message in the order of the schema.

        A column that the message lacks is null in all rows, if the schema permits it.

        Raises:
            RowError: A column is unknown, or a cell does not fit. Its row is counted from the
                first row of the writer on, not of the message.
        """
        given = {column.name: column for column in message.columns}
        unknown = sorted(given.keys() - self._names)
        if unknown:
            raise RowError(
                f"{self._source} wrote row {self._rows}: unknown column"
                f" {', '.join(map(repr, unknown))}; outputSchemaStr has"
                f" {', '.join(map(repr, self._names))}"
            )
        arrays = [
            self._read(reader, given.get(reader.name), message.rows) for reader in self._readers
        ]
        self._rows += message.rows
        return arrays

    def _read(self, reader: _Reader, message: ColumnMessage | None, rows: int) -> pa.Array:
        try:
            return reader.read(message, rows)
        # A reader has turned the position of an element of an array into the position of its row.
        except UnfitError as bad:
            raise RowError(
                f"{self._source} wrote row {self._rows + bad.position}: column {reader.name!r}"
                f" ({reader.sql}): expected {bad.expected}, got {bad.got}"
            ) from None


class _Reader:
    """Reader of one column, whose conversion is chosen once from its type, not with each cell."""

    def __init__(self, column: Column, arrow_type: pa.DataType) -> None:
        self.name = column.name
        self.sql = column.type.sql
        self._type = column.type
        self._arrow_type = arrow_type
        self._element_type = arrow_type.value_type if column.type.is_array else arrow_type
        self._forms = FORMS[column.type.kind]
        self._convert = self._CONVERT[column.type.kind]

    def read(self, message: ColumnMessage | None, rows: int) -> pa.Array:
        if message is None:
            if not self._type.nullable:
                self._refuse_null(0)
            return pa.nulls(rows, self._arrow_type)
        if message.type not in self._forms.accepted:
            known = message.type in ValueType.values()
            self._refuse_form(
                f"a batch of {ValueType.Name(message.type).lower() if known else 'unknown'} values"
            )
        if bool(message.cell_offsets) is not self._type.is_array:
            self._refuse_form(f"a batch {'without' if self._type.is_array else 'of'} arrays")
        bits = message.valid
        # Arrow would read behind the end of a bitmap that is too short.
        if bits and len(bits) != -(-rows // 8):
            raise UnfitError(0, f"{rows} rows", f"a null bitmap of {8 * len(bits)} bits")
        array = (
            self._arrays(message, rows, bits)
            if self._type.is_array
            else self._cells(message, rows, bits)
        )
        if not self._type.nullable and array.null_count:
            self._refuse_null(int(np.asarray(array.is_null()).argmax()))
        return array

    def _cells(self, message: ColumnMessage, rows: int, bits: bytes) -> pa.Array:
        """Read a column of single values, one for each row that is not null."""
        values = read_values(message, rows, bits)
        if self._has_raw_doubles(message):
            _refuse_lengths(values, values.lengths != _DOUBLE_BYTES)
            values = _spread(values)
        # Functions from a dictionary are not bound to an object, so this one gets the reader as an
        # argument.
        return self._convert(self, values)

    def _arrays(self, message: ColumnMessage, rows: int, bits: bytes) -> pa.Array:
        """Read a column of arrays: the elements of all cells at once, and the offsets of cells."""
        offsets = read_offsets(message.cell_offsets, rows, "arrays")
        values = read_values(message, int(offsets[-1]))
        try:
            if self._has_raw_doubles(message):
                _refuse_lengths(values, values.lengths % _DOUBLE_BYTES != 0)
                # A script may write an array as one value of 8 bytes per element, or as one value
                # for each element, so offsets are counted in bytes.
                offsets = values.offsets[offsets] // _DOUBLE_BYTES
                values = Values(FLOAT64, len(values.data) // _DOUBLE_BYTES, values.data)
            elements = self._convert(self, values)
        except UnfitError as bad:
            # The cell of an element is the last one that begins at or before it. `side="right"`
            # passes over empty cells, which begin at the same place.
            row = int(np.searchsorted(offsets, bad.position, side="right")) - 1
            raise UnfitError(row, bad.expected, bad.got) from bad
        buffers = [pa.py_buffer(bits) if bits else None, pa.py_buffer(offsets)]
        return pa.Array.from_buffers(self._arrow_type, rows, buffers, children=[elements])

    def _has_raw_doubles(self, message: ColumnMessage) -> bool:
        # Examples of TensorFlow have no 64-bit floats, so exact ones are 8 bytes of a bytes_list.
        return self._type.kind is Kind.DOUBLE and message.type == BYTES

    def _refuse_null(self, row: int) -> NoReturn:
        raise UnfitError(row, "a value, since the column is NOT NULL", "none")

    def _refuse_form(self, got: str) -> NoReturn:
        raise UnfitError(
            0, self._forms.expected + ("" if self._type.is_array else " with 1 value"), got
        )

    # Conversions of values to an array, for the cells, or for the elements of all arrays.

    def _booleans(self, values: Values) -> pa.Array:
        if values.value_type == BOOL:
            return values.array(self._element_type, values.data)
        values.check_range(values.numbers, 0, 1)
        return values.array(self._element_type, packed_bits(values.numbers != 0))

    def _integers(self, values: Values) -> pa.Array:
        wanted = np.dtype(self._element_type.to_pandas_dtype())
        # A wider type holds all values of a narrower one, so the range is not checked then.
        if wanted.itemsize < values.numbers.itemsize:
            values.check_range(values.numbers, np.iinfo(wanted).min, np.iinfo(wanted).max)
        return values.array(self._element_type, values.numbers.astype(wanted, copy=False))

    def _floats(self, values: Values) -> pa.Array:
        wanted = np.dtype(self._element_type.to_pandas_dtype())
        # A DOUBLE holds every value, and a FLOAT each FLOAT.
        if wanted.itemsize >= values.numbers.itemsize:
            return values.array(self._element_type, values.numbers.astype(wanted, copy=False))
        largest = np.finfo("f4").max
        # Overflows are found below, by their values. A signaling NaN is "invalid" for numpy.
        with np.errstate(over="ignore", invalid="ignore"):
            narrow = values.numbers.astype("<f4")
        # NaN and infinity fail this quick test as well. The next one passes them, because they do
        # not overflow.
        if not (np.abs(narrow) < largest).all():
            beyond = np.isfinite(values.numbers) & (np.abs(values.numbers) > largest)
            expected = "a number within the range of FLOAT"
            values.refuse_where(beyond, expected, lambda position: str(values.numbers[position]))
        return values.array(self._element_type, narrow)

    def _strings(self, values: Values) -> pa.Array:
        binary = values.binary()
        try:
            text = binary.cast(self._element_type)
        except pa.ArrowInvalid:
            _refuse_other_than_utf8(binary)
            raise
        if self._type.arguments:
            (length,) = self._type.arguments
            # A character has at least one byte, so most columns need no count of their characters.
            if values.lengths.max(initial=0) > length:
                _check_lengths(
                    values, pc.utf8_length(text).fill_null(0).to_numpy(), length, "characters"
                )
            # Flink's CAST to CHAR pads with blanks too.
            if self._type.name == "CHAR":
                text = pc.utf8_rpad(text, length)
        return text

    def _binaries(self, values: Values) -> pa.Array:
        if self._type.arguments:
            _check_lengths(values, values.lengths, self._type.arguments[0], "bytes")
        if self._type.name != "BINARY":
            return values.binary()
        # Flink's CAST to BINARY pads with zeros too.
        padded = np.zeros((values.count, self._element_type.byte_width), np.uint8)
        padded[np.arange(self._element_type.byte_width) < values.lengths[:, None]] = np.frombuffer(
            values.data, np.uint8
        )
        return values.array(self._element_type, padded)

    _CONVERT: ClassVar[dict[Kind, Callable[[_Reader, Values], pa.Array]]] = {
        Kind.BOOLEAN: _booleans,
        **dict.fromkeys(INTEGERS, _integers),
        **dict.fromkeys(FLOATS, _floats),
        Kind.STRING: _strings,
        Kind.BYTES: _binaries,
        Kind.DECIMAL: lambda self, values: from_text(values, self._element_type),
        **dict.fromkeys(
            POINTS_IN_TIME,
            lambda self, values: points_in_time(values, self._type, self._element_type),
        ),
    }


def _refuse_lengths(values: Values, bad: NDArray[np.bool_]) -> None:
    values.refuse_where(
        bad, "8 bytes for each value", lambda position: f"{values.lengths[position]} bytes"
    )


def _spread(values: Values) -> Values:
    """Doubles of 8 bytes each, with a place for each null, which has no bytes in the message."""
    numbers = np.zeros(values.count)
    numbers[values.lengths == _DOUBLE_BYTES] = np.frombuffer(values.data, "<f8")
    return Values(FLOAT64, values.count, numbers.tobytes(), bits=values.bits)


def _check_lengths(values: Values, lengths: NDArray[np.int32], largest: int, unit: str) -> None:
    values.refuse_where(
        lengths > largest, f"at most {largest} {unit}", lambda position: str(lengths[position])
    )


def _refuse_other_than_utf8(binary: pa.Array) -> None:
    """Name the first value that is not UTF-8; Arrow's error has no position."""
    for position, value in enumerate(binary.to_pylist()):
        try:
            (value or b"").decode("utf-8")
        except UnicodeDecodeError as error:
            got = f"bytes that are not valid UTF-8 ({error.reason} at byte {error.start})"
            raise UnfitError(position, "UTF-8 text", got) from None
