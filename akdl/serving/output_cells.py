"""Conversion of a model's output to the cells of a column, by the column's SQL type. Pure.

- Numbers and BOOLEAN take one element. Text elements, such as the classes of an Estimator, are
  parsed as numbers.
- ARRAY takes all elements, flat, in row-major order.
- STRING takes any output: the elements separated by spaces, booleans as "true" and "false".
- BYTES takes one element of strings, or all elements of numbers as raw little-endian bytes.

Floats are not converted to integers, because that would change them: round them in SQL.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable

import numpy as np

from akdl.serving.loaded_model import CellError, Errors, SignatureError, TensorDescription
from akdl.serving.number_cells import NUMBERS, PARSERS, cast
from akdl.wire import Serving, TableColumn
from akdl.wire.cells import DTYPES, Array
from akdl.wire.column_type import FLOATS, INTEGERS, MEANINGS, Kind, parse_type
from akdl.wire.columns import Values

# Prefix of the columns that a candidate predicts.
PREFIX = "shadow_"

_KINDS = {Kind.BOOLEAN, Kind.STRING, Kind.BYTES, *INTEGERS, *FLOATS}


def result_columns(serving: Serving) -> list[TableColumn]:
    """Columns of a prediction: the outputs of the model, the outputs of a candidate, and the
    version of the model.
    """
    columns = list(serving.output_columns)
    if serving.candidate_path:
        columns += [
            TableColumn(name=PREFIX + column.name, type=column.type)
            for column in serving.output_columns
        ]
    return [
        *columns,
        *([TableColumn(name=serving.model_col, type="STRING")] if serving.model_col else []),
    ]


class OutputConverter:
    """Converts one output for a column; without a type, the column has the arrays unconverted.

    `cells_hold_batches` means that a cell is a whole tensor with the batch dimension. A type that
    cannot hold the output is a SignatureError when the converter is made, as far as the signature
    shows it; other misfits are errors of single rows.
    """

    def __init__(
        self, column: TableColumn, tensor: TensorDescription, cells_hold_batches: bool = False
    ) -> None:
        self.name = column.name
        self.key = tensor.key
        self._where = f"output {tensor.key!r} to column {column.name!r} ({column.type})"
        if not tensor.tensor:
            raise SignatureError(
                f"the output {tensor} is not a dense tensor; sparse and ragged outputs do not fit a"
                " column"
            )
        if not column.type:
            self._convert: Callable[[Array], Values] = lambda array: array
            return
        column_type = None
        with contextlib.suppress(ValueError):
            column_type = parse_type(column.type)
        source = (
            "text" if tensor.dtype == "string" else np.dtype(NUMBERS.get(tensor.dtype, "V")).kind
        )
        if column_type is None or column_type.kind not in _KINDS or source == "V":
            raise SignatureError(
                f"the column {column.name!r} has the type {column.type!r} for the output {tensor};"
                " supported types are "
                + ", ".join(sorted(kind.value for kind in _KINDS))
                + " and ARRAY<...> of them, for outputs of numbers, booleans and strings"
            )
        self._kind, self._is_array = column_type.kind, column_type.is_array
        self._convert = self._converter(source)
        shape = tensor.shape if cells_hold_batches or tensor.shape is None else tensor.shape[1:]
        size = (
            None
            if shape is None or min(shape, default=0) < 0
            else int(np.prod(shape, dtype=np.int64))
        )
        if self._takes_one(source) and size not in (None, 1):
            raise SignatureError(
                f"the column {column.name!r} has the type {column.type!r}, which holds one value,"
                f" but the output {tensor} has {size} in each row: declare an ARRAY or STRING"
            )
        if not self._fits(source):
            raise SignatureError(
                f"the column {column.name!r} has the type {column.type!r}, which cannot hold the"
                f" output {tensor}"
            )

    def convert(self, array: Array) -> tuple[Values, Errors]:
        """Values of a batch, None for bad rows, and the errors of these rows."""
        try:
            return self._convert(array), {}
        except CellError:
            # A value that does not fit must not fail the other rows, so rows are converted one by
            # one.
            return self._one_by_one(array)

    def _one_by_one(self, array: Array) -> tuple[Values, Errors]:
        cells: list[Any] = []
        errors: Errors = {}
        for row in range(len(array)):
            cell = None
            try:
                cell = self._convert(array[row : row + 1])[0]
            except CellError as error:
                errors[row] = f"{self._where}: {error}"
            cells.append(cell)
        return cells, errors

    def _takes_one(self, source: str) -> bool:
        """Test if a cell holds one element: BYTES holds all elements of numbers, but one string."""
        if self._is_array or self._kind is Kind.STRING:
            return False
        return self._kind is not Kind.BYTES or source == "text"

    def _fits(self, source: str) -> bool:
        if self._kind in {Kind.STRING, Kind.BYTES}:
            return True
        if self._kind is Kind.BOOLEAN:
            return source == "b"
        return source != "f" or self._kind in FLOATS

    def _converter(self, source: str) -> Callable[[Array], Values]:
        if self._kind is Kind.STRING:
            return (
                (lambda array: list(map(_words, self._elements(array))))
                if self._is_array
                else _joined
            )
        if self._kind is Kind.BYTES and self._is_array:
            return self._bytes_arrays
        if self._kind is Kind.BYTES and source == "text":
            return lambda array: list(map(bytes, self._elements(array).tolist()))
        if self._kind is Kind.BYTES:
            return lambda array: [row.tobytes() for row in _little(array)]
        if self._kind is Kind.BOOLEAN:
            return lambda array: self._elements(array).astype(bool)
        self._target = np.dtype(DTYPES[MEANINGS[self._kind].sent])
        return self._numbers

    def _elements(self, array: Array) -> Array:
        flat = _flat(array)
        if self._is_array:
            return flat
        if flat.shape[1] != 1:
            raise CellError(
                f"expected one value in each row, got {flat.shape[1]}: declare an ARRAY or STRING"
            )
        return flat[:, 0]

    def _numbers(self, array: Array) -> Values:
        elements = self._elements(array)
        if elements.dtype == object:
            elements = _parsed(elements, self._target)
        return cast(elements, self._target, self._kind.value)

    def _bytes_arrays(self, array: Array) -> Values:
        if array.dtype == object:
            return [list(map(bytes, row)) for row in self._elements(array)]
        return [[element.tobytes() for element in row] for row in self._elements(_little(array))]


def _flat(array: Array) -> Array:
    """Elements of each row in row-major order; numpy cannot infer the width of an empty array."""
    return array.reshape(len(array), -1) if array.size else np.zeros((len(array), 0), array.dtype)


def _joined(array: Array) -> Values:
    flat = _flat(array)
    if flat.shape[1] == 1 and flat.dtype == object:
        return _words(flat[:, 0])
    return [" ".join(_words(row)) for row in flat]


def _words(row: Array) -> list[str]:
    if row.dtype == object:
        try:
            return list(map(bytes.decode, row.tolist()))
        except UnicodeDecodeError as error:
            raise CellError(
                f"the bytes are not valid UTF-8 ({error.reason} at byte {error.start}): declare"
                " BYTES"
            ) from None
    if row.dtype == bool:
        return ["true" if element else "false" for element in row]
    # str of a numpy scalar is the shortest text of the same float32; a Python float would show the
    # digits of a float64.
    return [str(element) for element in row]


def _little(array: Array) -> Array:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _parsed(flat: Array, target: Any) -> Array:
    # The caller converts them to the column's type: here, numpy before 2.0 would wrap integers
    # beyond it, and any numpy would make infinity of a float.
    result = np.empty(flat.shape, target.kind + "8")
    for place, element in enumerate(flat.flat):
        try:
            result.flat[place] = PARSERS[target.kind][0](element.decode())
        except (ValueError, ArithmeticError):
            raise CellError(
                f"expected a number of type {target}, got the string {element!r}"
            ) from None
    return result
