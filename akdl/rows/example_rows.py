"""Rows written by a script one at a time, as tf.train.Example, converted to columns. Pure.

`output_writer.write` comes here; `write_batch` goes to `akdl.wire.columns` instead. An Example is
checked when it is read, so that the script gets the error where it wrote the row. Values out of
range for the type of their column, such as 300 for a TINYINT, are found on the Flink side, which
converts whole columns at a time.
"""

from __future__ import annotations

import itertools
import struct
from operator import attrgetter
from typing import Any, Callable, NoReturn, Sequence

import numpy as np

from akdl.features import FLOAT32, INT64
from akdl.near_names import listed
from akdl.wire import Column, Rows, TableColumn, TableColumns
from akdl.wire.cells import Array, Cells, fill_column, joined, lengths_of, offsets_of, spread
from akdl.wire.column_type import POINTS_IN_TIME, Kind, type_of
from akdl.wire.columns import Values

_NUMBER_BYTES = 8


class ExampleRows:
    """Rows collected for the next message; `size` is their approximate number of bytes.

    The writer reads a row, tests if it `fits`, appends it, and takes all rows as a message when
    they are large enough.
    """

    def __init__(self, columns: TableColumns) -> None:
        self._columns = [_ExampleColumn(column) for column in columns]
        self._readers = [
            (column, column.name, column.usual_values, column.is_array) for column in self._columns
        ]
        sizes = [_size_of(column) for column in self._columns]
        self._sizes = [
            (place, size_of) for place, size_of in enumerate(sizes) if size_of is not None
        ]
        self._in_two_forms = [
            place for place, column in enumerate(self._columns) if column.is_point_in_time
        ]
        self._clear()

    def __len__(self) -> int:
        return len(self._cells[0]) if self._cells else 0

    def read(self, example: Any, row: int) -> list[Any]:
        """Return the cells of a row in the order of the columns.

        A cell is a number, bytes, a tuple of these, or None.

        Raises:
            TypeError: A feature has values of another kind than its column.
            ValueError: The number of values is wrong, a NOT NULL column has no value, or a feature
                belongs to no column.
        """
        features = example.features.feature
        cells: list[Any] = []
        known = 0
        # the inner loop of a script: 1 µs for each column
        for column, name, usual_values, is_array in self._readers:
            # Protobuf's map would add the feature if it were read by `features[name]`.
            if name not in features:
                column.check_null(row)
                cells.append(None)
                continue
            known += 1
            feature = features[name]
            values = usual_values(feature)
            if is_array and values:
                cells.append(tuple(values))
            elif not is_array and len(values) == 1:
                cells.append(values[0])
            else:
                # The slow path reads rare forms, such as a string for a date, and raises the
                # errors.
                cells.append(column.read(feature, row))
        # Counting is cheaper than comparing names for every row; the names are searched in an
        # error.
        if known != len(features):
            names = [column.name for column in self._columns]
            unknown = sorted(set(features) - set(names))
            raise ValueError(
                f"output_writer.write: row {row}: unknown column {listed(unknown)}; outputSchemaStr"
                f" has {listed(names)}"
            )
        return cells

    def fits(self, cells: Sequence[Any]) -> bool:
        """Test if a row can join the rows so far.

        A script may write a point in time as a number or as text, also by turns, but a column of a
        message has one type of values. The writer sends the rows so far when this is false.
        """
        for place in self._in_two_forms:
            form = _form(cells[place])
            # Until a first value has come, the column takes either form.
            if form is not None and self._forms.get(place, form) is not form:
                return False
        return True

    def append(self, cells: Sequence[Any]) -> None:
        for append, cell in zip(self._appends, cells):
            append(cell)
        self.size += _NUMBER_BYTES * len(cells)
        for place, size_of in self._sizes:
            if cells[place]:
                self.size += size_of(cells[place])
        for place in self._in_two_forms:
            form = _form(cells[place])
            if form is not None:
                self._forms[place] = form

    def take(self, message: Rows) -> None:
        """Move all rows to an empty message, in place because assigning a message would copy it."""
        message.rows = len(self)
        for column, cells in zip(self._columns, self._cells):
            present = [cell for cell in cells if cell is not None] if None in cells else cells
            if present:  # a missing column is null
                valid = None if present is cells else np.array([cell is not None for cell in cells])
                column.fill(message.columns.add(), present, valid)
        self._clear()

    def _clear(self) -> None:
        # By column: a list per row would cost 3 µs of garbage collection next to TensorFlow's
        # objects.
        self._cells: list[list[Any]] = [[] for _ in self._columns]
        self._appends = [cells.append for cells in self._cells]
        self._forms: dict[int, type] = {}
        self.size = 0


class _ExampleColumn:
    """Reader of one column; `usual_values` gives the values of a feature of the column's usual
    kind.
    """

    def __init__(self, column: TableColumn) -> None:
        column_type = type_of(column)
        self.name = column.name
        self.is_array = column_type.is_array
        self.is_bytes = column_type.feature not in {INT64, FLOAT32}
        self.is_point_in_time = column_type.kind in POINTS_IN_TIME
        self._sql_type = column.type
        self._is_nullable = column_type.nullable
        self._is_double = column_type.kind is Kind.DOUBLE
        self._dtype = {INT64: "<i8", FLOAT32: "<f8" if self._is_double else "<f4"}.get(
            column_type.feature, ""
        )
        usual = {INT64: "int64_list", FLOAT32: "float_list"}.get(column_type.feature, "bytes_list")
        expected = f"{_article(usual)} {usual}"
        self._lists = {usual}
        # An Example has no doubles, so exact ones are 8 bytes in a bytes_list. A point in time may
        # be a text.
        if self._is_double or self.is_point_in_time:
            self._lists.add("bytes_list")
            expected += f" (or a bytes_list of {'8 bytes' if self._is_double else 'strings'})"
        self._expected = expected if self.is_array else f"{expected} with 1 value"
        self.usual_values = attrgetter(f"{usual}.value")

    def check_null(self, row: int) -> None:
        if not self._is_nullable:
            self._refuse(ValueError, row, "a value, since the column is NOT NULL", "none")

    def fill(self, column: Column, cells: Values, valid: Array | None) -> None:
        where = f"column {self.name!r} ({self._sql_type})"
        cell_offsets, has_value = None, valid
        if self.is_array:
            # Offsets cover all rows, and a null cell has no elements. All elements that follow
            # belong to valid cells, so they are not spread again.
            cell_offsets, has_value = offsets_of(spread(lengths_of(cells), valid), where), None
            cells = list(itertools.chain.from_iterable(cells))
        if self.is_bytes or _form(cells) is bytes:
            value_offsets = offsets_of(spread(lengths_of(cells), has_value), where)
            filled = Cells(joined(cells), valid, cell_offsets, value_offsets)
        else:
            filled = Cells(spread(np.array(cells, self._dtype), has_value), valid, cell_offsets)
        fill_column(column, self.name, filled)

    def read(self, feature: Any, row: int) -> Any:
        name = feature.WhichOneof("kind")
        if name is None:
            self.check_null(row)
            return None
        values = list(getattr(feature, name).value)
        if name not in self._lists or (not self.is_array and len(values) != 1):
            number = f"{len(values)} value{'s' if len(values) != 1 else ''}"
            error = ValueError if name in self._lists else TypeError
            self._refuse(error, row, self._expected, f"{_article(name)} {name} with {number}")
        if self._is_double and name == "bytes_list":
            values = [number for value in values for number in self._exact(value, row)]
        return tuple(values) if self.is_array else values[0]

    def _exact(self, value: bytes, row: int) -> tuple[float, ...]:
        if len(value) % 8 or (not self.is_array and len(value) != 8):
            self._refuse(ValueError, row, "8 bytes for each value", f"{len(value)} bytes")
        return struct.unpack(f"<{len(value) // 8}d", value)

    def _refuse(self, error: type[Exception], row: int, expected: str, got: str) -> NoReturn:
        raise error(
            f"output_writer.write: row {row}: column {self.name!r} ({self._sql_type}): expected"
            f" {expected}, got {got}"
        )


def _form(cell: object) -> type | None:
    """Kind of a cell's values, `int` for any number or `bytes`; None for an empty cell."""
    value = cell if not isinstance(cell, (list, tuple)) else cell[0] if cell else None
    return None if value is None else bytes if isinstance(value, bytes) else int


def _size_of(column: _ExampleColumn) -> Callable[[Any], int] | None:
    """Function that estimates the size of a cell; None for columns of fixed width."""
    if not column.is_array:
        return len if column.is_bytes else None
    return (
        (lambda cell: sum(map(len, cell)))
        if column.is_bytes
        else (lambda cell: _NUMBER_BYTES * len(cell))
    )


def _article(list_name: str) -> str:
    return "an" if list_name == "int64_list" else "a"
