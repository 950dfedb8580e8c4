"""Conversion of a column's cells to the values of a model's input. Pure.

Cells for an input of numbers or booleans:
- a number, or a list or array of numbers. A flat list is reshaped to the input's shape if the count
  fits, so an ARRAY of 784 numbers fits [28, 28]. Conversions may lose only digits of a fraction:
  3.0 converts to an integer, 3.5 does not, nor does 300 to uint8.
- a string: numbers separated by commas and white space, with their shape in front if it is
  ambiguous: "$2 3$1 2 3 4 5 6".
- bytes: the raw little-endian elements in row-major order.

For an input of strings: strings, bytes, or lists of them.

Most columns are converted as a whole. If that fails, cells are converted one at a time, to find the
bad ones, so that an error names its row and the other rows are predicted.
"""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple, Sequence

import numpy as np

from akdl.near_names import short
from akdl.serving.loaded_model import (
    CellError,
    Errors,
    RowNumbers,
    ServingError,
    SignatureError,
    TensorDescription,
    shape_text,
)
from akdl.serving.number_cells import NUMBERS, NumberCells
from akdl.wire import TableColumn
from akdl.wire.cells import Array
from akdl.wire.columns import is_utf8

_NULL = "expected a value, got null"
# TensorFlow's object for a string has these bytes besides the text, so a batch of many short
# strings takes more memory than their texts.
_STRING_BYTES = 24


class Converted(NamedTuple):
    """Values of an input: one array with rows on the first axis, or a list with an array per row,
    None for bad rows.
    """

    values: Array | list[Array | None]
    errors: Errors

    def shape(self, row: int) -> tuple[int, ...]:
        if not isinstance(self.values, list):
            return tuple(self.values.shape[1:])
        value = self.values[row]
        return () if value is None else tuple(value.shape)

    def size(self, rows: RowNumbers) -> int:
        """Bytes of the values of some rows, which have equal shapes."""
        sample = self.values[rows[0]] if isinstance(self.values, list) else self.values
        if sample.dtype == object:
            # An array of objects has pointers only, so the bytes of the strings are counted.
            strings = self.take(rows).reshape(-1).tolist()
            return sum(map(len, strings)) + _STRING_BYTES * len(strings)
        return (
            len(rows) * int(sample.nbytes) // (1 if isinstance(self.values, list) else len(sample))
        )

    def take(self, rows: RowNumbers) -> Array:
        """Stack the values of some rows, which have equal shapes."""
        if isinstance(self.values, list):
            return np.stack([self.values[row] for row in rows])
        # A slice is a view. Indexing by numbers copies, and took 60 % of a small model's time.
        if isinstance(rows, range):
            return self.values[rows.start : rows.stop]
        return self.values[list(rows)]


def stacked(parts: Sequence[Converted], tensor: TensorDescription) -> Converted:
    """Return the values of one input, made of a number from each of several columns.

    A bad number counts as 0 here. Its row is among the errors of its column, so it is not
    predicted.
    """
    sizes, dtype = (tensor.shape or ())[1:], NUMBERS[tensor.dtype]
    columns = [
        (
            np.array([0 if cell is None else cell for cell in part.values], dtype)
            if isinstance(part.values, list)
            else part.values
        )
        for part in parts
    ]
    return Converted(np.stack(columns, axis=1).reshape(-1, *sizes), {})


class InputConverter:
    """Converts the cells of one column for one input.

    With `cells_hold_batches`, cells are whole tensors with the batch dimension, and not elements of
    a batch.
    """

    def __init__(
        self, tensor: TensorDescription, column: TableColumn, cells_hold_batches: bool = False
    ) -> None:
        _check(tensor, cells_hold_batches)
        self.key = tensor.key
        self.column = column.name
        self.fixed_batch: int | None = None
        self._default: Any = None
        # The first size is that of the batch, which a cell does not have unless it is a whole
        # tensor.
        sizes = tensor.shape
        if sizes is not None and not cells_hold_batches:
            self.fixed_batch = sizes[0] if sizes[0] >= 0 else None
            sizes = sizes[1:]
        is_string = tensor.dtype == "string"
        self._sizes = sizes
        self._cells = (
            _StringCells()
            if is_string
            else NumberCells(tensor.dtype, sizes is None, bool(column.type) and is_utf8(column))
        )
        self._where = (
            f"input {tensor.key!r} ({tensor.dtype} {shape_text(sizes)}) from column {column.name!r}"
        )

    def set_default(self, value: object) -> None:
        """Let a value stand for null from now on; ServingError if it does not fit the input.

        It is tried here, so that a wrong default fails the start and not the first null.
        """
        for message in self.convert([value]).errors.values():
            raise ServingError(f"defaults: {message}")
        self._default = value

    def convert(self, cells: Any) -> Converted:
        """Convert the cells of a batch, an array with rows on the first axis or a sequence; None
        and masked cells are null.
        """
        has_nulls = (
            not isinstance(cells, np.ndarray)
            or cells.dtype == object
            or isinstance(cells, np.ma.MaskedArray)
        )
        # Only lists, objects and masked arrays can have nulls; other arrays keep the fast path.
        if self._default is not None and has_nulls:
            cells = [
                self._default if cell is None or cell is np.ma.masked else cell for cell in cells
            ]
        whole = self._whole(cells)
        if whole is not None:
            return Converted(whole, {})
        # A column whose only bad cells are nulls is still converted as a whole, which is much
        # faster than one cell at a time.
        return self._without_nulls(cells) or self._one_by_one(cells)

    def _whole(self, cells: Any) -> Array | None:
        """All cells in one array; None if they have to be converted one at a time."""
        if isinstance(cells, np.ma.MaskedArray):
            return None
        if hasattr(cells, "numpy"):  # an eager tensor
            cells = cells.numpy()
        if not len(cells):
            # Without rows nothing shows the shape, and a variable size counts as 0.
            shape = [0, *(max(0, size) for size in self._sizes or ())]
            return np.zeros(shape, self._cells.dtype)
        try:
            array = self._cells.whole(cells)
            return None if array is None else _reshaped(array, self._sizes)
        except CellError:
            return None

    def _without_nulls(self, cells: Any) -> Converted | None:
        """Convert a list with nulls, which are errors, as a whole; None if cells have to be
        converted one at a time.
        """
        nulls = (
            [row for row, cell in enumerate(cells) if cell is None]
            if isinstance(cells, list)
            else []
        )
        present = self._whole([cell for cell in cells if cell is not None]) if nulls else None
        if present is None:
            return None
        # Zeros stand in the bad rows, which are not predicted.
        values = np.zeros((len(cells), *present.shape[1:]), present.dtype)
        valid = np.ones(len(cells), bool)
        valid[nulls] = False
        values[valid] = present
        return Converted(values, dict.fromkeys(nulls, f"{self._where}: {_NULL}"))

    def _one_by_one(self, cells: Any) -> Converted:
        values: list[Array | None] = []
        errors: Errors = {}
        for row, cell in enumerate(_unmasked(cells)):
            try:
                values.append(self._single(cell))
            except CellError as error:
                values.append(None)
                errors[row] = f"{self._where}: {error}"
        good = [value for value in values if value is not None]
        # The cells may have equal shapes after all, for example texts with a number each. One array
        # is cut into batches faster.
        if not errors and len({value.shape for value in good}) == 1:
            return Converted(np.stack(good), {})
        return Converted(values, errors)

    def _single(self, cell: Any) -> Array:
        if cell is None:
            raise CellError(_NULL)
        if isinstance(cell, np.ma.MaskedArray) and np.ma.is_masked(cell):  # type: ignore[no-untyped-call]
            raise CellError("expected values, got an array with null elements")
        row = _reshaped(self._cells.single(cell)[np.newaxis], self._sizes)
        # `row[0]` would not be an array where the value is a single object.
        return row.reshape(row.shape[1:])


class _StringCells:
    dtype = np.dtype(object)

    def whole(self, cells: Array | Sequence[object]) -> Array | None:
        if isinstance(cells, np.ndarray):
            return encoded(cells) if cells.dtype.kind in "USO" else None
        return (
            encoded(np.array(cells, object))
            if {type(cell) for cell in cells} <= {str, bytes}
            else None
        )

    def single(self, cell: Any) -> Array:
        try:
            array = np.array(cell, object)
        except ValueError:
            raise CellError(
                f"expected an array, got lists of different length: {short(cell)}"
            ) from None
        return encoded(array)


def _reshaped(array: Array, sizes: tuple[int, ...] | None) -> Array:
    """Give rows this shape, with -1 for a variable size, or any shape for None; flat ones get it
    where it is clear, with at most one variable size.
    """
    own = array.shape[1:]
    if sizes is None or (
        len(own) == len(sizes) and all(wanted in (-1, size) for wanted, size in zip(sizes, own))
    ):
        return array
    hint = ""
    if len(own) <= 1 and sizes.count(-1) > 1:
        hint = "; several dimensions are variable, so give the value its shape"
    elif len(own) <= 1:
        # numpy works out one variable size, and refuses a number of values that does not fit.
        with contextlib.suppress(ValueError):
            return array.reshape(len(array), *sizes)
    raise CellError(f"expected the shape {shape_text(sizes)}, got {shape_text(own)}{hint}")


def _check(tensor: TensorDescription, cells_hold_batches: bool) -> None:
    if not tensor.tensor:
        raise SignatureError(
            f"the input {tensor} is not a dense tensor; sparse and ragged inputs cannot be fed from"
            " a column"
        )
    if tensor.dtype not in NUMBERS and tensor.dtype != "string":
        raise SignatureError(f"the input {tensor} has a type that cannot be fed from a column")
    if tensor.shape == () and not cells_hold_batches:
        raise SignatureError(
            f"the input {tensor} has no batch dimension; a model that takes single tensors needs"
            " cellsHoldBatches"
        )


def _unmasked(cells: Any) -> Sequence[Any]:
    if not isinstance(cells, np.ma.MaskedArray):
        return list(cells)
    # A cell is null if all of its elements are masked. A cell without elements is not null,
    # although `all` of nothing is True.
    masks = np.ma.getmaskarray(cells).reshape(len(cells), -1).all(axis=1)  # type: ignore[no-untyped-call]
    return [None if masked and cells[row].size else cells[row] for row, masked in enumerate(masks)]


def encoded(array: Array) -> Array:
    """Return strings as bytes in UTF-8, which TensorFlow expects, in an array of objects.

    Raises:
        CellError: An element is neither text nor bytes, or cannot be encoded.
    """
    if array.dtype == object and set(map(type, array.reshape(-1).tolist())) <= {bytes}:
        return array
    result = np.empty(array.shape, object)
    for place, element in enumerate(array.flat):
        if isinstance(element, str):
            try:
                element = element.encode("utf-8")
            except UnicodeEncodeError:
                raise CellError(
                    f"{short(element)} is not valid Unicode text: it has half of a surrogate pair"
                ) from None
        elif not isinstance(element, bytes):
            raise CellError(
                "expected a string or bytes, got"
                f" {'null' if element is None else type(element).__name__}"
            )
        result.flat[place] = element
    return result
