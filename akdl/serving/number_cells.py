"""Conversion of cells to numbers or booleans of one type, for inputs and outputs of models. Pure.

A conversion may lose digits of a fraction and nothing else: a number out of range, a fraction for
an integer or a rounded integer would be another value, which a prediction does not show.
"""

from __future__ import annotations

import decimal
import re
from typing import Any, Callable, Sequence

import numpy as np

from akdl.near_names import short
from akdl.serving.loaded_model import CellError, shape_text
from akdl.wire.cells import Array, as_array

NUMBERS = {
    "bool": "?",
    "int8": "i1",
    "int16": "i2",
    "int32": "i4",
    "int64": "i8",
    "uint8": "u1",
    "uint16": "u2",
    "uint32": "u4",
    "uint64": "u8",
    "float16": "f2",
    "float32": "f4",
    "float64": "f8",
    "bfloat16": "f4",  # float32 until the model is called, as numpy has no such type
}
# The shape in front of a text of numbers, as in $2 3$1 2 3 4 5 6.
_SHAPE = re.compile(r"\s*\$([^$]*)\$")
_BOOLEANS = {"true": 1, "false": 0, "1": 1, "0": 0}
_NUMBER_KINDS = "biuf"  # of numpy's types: booleans, integers with and without sign, floats


class NumberCells:
    """Reads cells of numbers or booleans; with `has_open_shape`, a string of one number is a
    scalar, and with `is_text`, bytes are a string in UTF-8 and not raw numbers.
    """

    def __init__(self, dtype: str, has_open_shape: bool, is_text: bool = False) -> None:
        self.dtype = np.dtype(NUMBERS[dtype])
        self._has_open_shape, self._is_text = has_open_shape, is_text
        # Its values are float32 here, so two raw bytes for each would be read as something else.
        self._has_raw_form = dtype != "bfloat16"
        self._parse, self._parsed_type = PARSERS[self.dtype.kind]

    def whole(self, cells: Array | Sequence[Any]) -> Array | None:
        """All cells in one array; None if they have to be converted one at a time."""
        if isinstance(cells, np.ndarray) and cells.dtype != object:
            array: Array | None = cells
        else:
            array = self._stacked(list(cells))
        if array is None or array.dtype.kind not in _NUMBER_KINDS:
            return None
        return self._cast(array)

    def single(self, cell: object) -> Array:
        if self._is_text and isinstance(cell, bytes):
            cell = cell.decode("utf-8", "replace")
        if isinstance(cell, str):
            return self._from_string(cell)
        if isinstance(cell, (bytes, bytearray)):
            return self._from_bytes(bytes(cell))
        return self._from_numbers(cell)

    def _stacked(self, cells: list[Any]) -> Array | None:
        types = {type(cell) for cell in cells}
        if types == {bytes} and not self._is_text:
            size = len(cells[0])
            is_uniform = (
                size > 0
                and size % self.dtype.itemsize == 0
                and all(len(cell) == size for cell in cells)
            )
            return self._from_bytes(b"".join(cells)).reshape(len(cells), -1) if is_uniform else None
        if len(types) == 1 and isinstance(cells[0], np.ndarray):
            is_uniform = len({(cell.shape, cell.dtype) for cell in cells}) == 1
            return np.stack(cells) if is_uniform else None
        # numpy would make texts of numbers next to a text, and an array of objects with a None.
        if not types.isdisjoint((str, bytes, type(None))):
            return None
        try:
            array = as_array(cells)
        except (ValueError, TypeError, OverflowError):  # ragged
            return None
        # An integer next to a float was converted to float, perhaps with rounding.
        is_rounded = array.dtype.kind == "f" and self.dtype.kind in "iu"
        return None if is_rounded else array

    def _from_string(self, text: str) -> Array:
        header = _SHAPE.match(text)
        elements = _words(text[header.end() :] if header else text)
        try:
            shape = tuple(int(size) for size in _words(header.group(1))) if header else None
            parsed = np.array([self._parse(element) for element in elements], self._parsed_type)
        except (ValueError, KeyError, ArithmeticError):
            raise CellError(
                f"expected {self.dtype} numbers, got the string {short(text)}"
            ) from None
        array = self._cast(parsed)
        if shape is None:
            return array.reshape(()) if array.size == 1 and self._has_open_shape else array
        if min(shape, default=0) < 0 or array.size != int(np.prod(shape, dtype=np.int64)):
            raise CellError(
                f"the string has {array.size} numbers, but its shape is {shape_text(shape)}"
            )
        return array.reshape(shape)

    def _from_bytes(self, content: bytes) -> Array:
        if not self._has_raw_form:
            raise CellError("bytes cannot be read as bfloat16")
        if len(content) % self.dtype.itemsize:
            raise CellError(
                f"expected {self.dtype.itemsize} bytes for each element, got {len(content)} bytes"
            )
        return np.frombuffer(content, self.dtype.newbyteorder("<")).astype(self.dtype)

    def _from_numbers(self, cell: object) -> Array:
        try:
            array = as_array(cell)
        except (ValueError, TypeError):
            raise CellError(
                f"expected an array, got lists of different length: {short(cell)}"
            ) from None
        # An integer next to a float was converted to float, perhaps with rounding.
        is_rounded = array.dtype.kind == "f" and self.dtype.kind in "iu" and array is not cell
        if array.dtype == object or is_rounded:
            array = self._from_objects(np.asarray(cell, object), cell)
        if array.size == 0 and array.dtype.kind != "O":
            return array.astype(self.dtype)
        if array.dtype.kind not in _NUMBER_KINDS:
            raise CellError(f"expected numbers, got {type(cell).__name__}: {short(cell)}")
        return self._cast(array)

    def _from_objects(self, array: Array, cell: object) -> Array:
        """Convert an array of decimals, of integers beyond numpy's types, or of integers and
        floats, to numbers; return other arrays unchanged.
        """
        elements = list(array.flat)
        if any(element is None for element in elements):
            raise CellError(f"expected values, got an array with null elements: {short(cell)}")
        known = (decimal.Decimal, int, float, np.integer, np.floating)
        if not all(isinstance(element, known) for element in elements):
            return array
        try:
            # Through float, integers beyond 53 bits would be rounded.
            is_exact = self.dtype.kind in "iu" and all(
                element == int(element) for element in elements
            )
            number = int if is_exact else float
            return np.array([number(element) for element in elements]).reshape(array.shape)
        except (ValueError, OverflowError):  # not a number, infinite, or too large
            raise CellError(f"expected {self.dtype}, got {short(cell)}") from None

    def _cast(self, array: Array) -> Array:
        return cast(array, self.dtype, self.dtype)


def cast(array: Array, dtype: Any, name: object) -> Array:
    """Convert numbers to a type, where numpy would wrap or cut values that do not fit.

    Raises:
        CellError: With the first number that does not fit; `name` is the type in the message.
    """
    if array.dtype == dtype:
        return array
    result, fits = _CONVERSIONS[dtype.kind](array, dtype)
    if fits is not None and not np.all(fits):
        first = np.asarray(array)[~np.asarray(fits)].flat[0]
        raise CellError(f"the number {first} does not fit into {name}")
    return result


def _words(text: str) -> list[str]:
    return text.replace(",", " ").split()


def _integer(word: str) -> int:
    # Python reads 1_0 as 10.
    if "_" in word:
        raise ValueError
    try:
        return int(word)
    except ValueError:
        # A text such as 3.0 or 1e3 is an integer too. The division fails for a number of more
        # digits than any type has.
        number = decimal.Decimal(word)
        if number % 1:
            raise
        return int(number)


def _float(word: str) -> float:
    number = float(word)
    # Python makes infinity of a number that is too large.
    if "_" in word or (np.isinf(number) and "n" not in word.lower()):
        raise ValueError
    return number


PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "b": (lambda word: _BOOLEANS[word.lower()], "?"),
    "i": (_integer, "i8"),
    # numpy before 2.0 would make 2**64 - 1 of -1. A range finds its own numbers alone, at once.
    "u": (lambda word: range(1 << 64).index(_integer(word)), "u8"),
    "f": (_float, "f8"),
}
"""Kind of a type to how one element of a string is read, and to the type that holds the
elements.
"""


# Conversions of numbers to a type: the numbers, and a mask of the values in range; None if all are.


def _to_floats(array: Array, dtype: Any) -> tuple[Array, Array | None]:
    with np.errstate(over="ignore"):
        result = array.astype(dtype)
    # Only float16 is too small for some integers: its largest number is 65504.
    if array.dtype.kind != "f" and dtype.itemsize > 2:
        return result, None
    return result, np.isfinite(result) | ~np.isfinite(array)


def _to_integers(array: Array, dtype: Any) -> tuple[Array, Array | None]:
    limits = np.iinfo(dtype)
    if array.dtype.kind == "b":
        return array.astype(dtype), None
    if array.dtype.kind == "f":
        # `limits.max` of 64 bits is not a float: it rounds up to 2**63, which does not fit. So the
        # comparison is with the next power of two, which is exact.
        fits = (array >= limits.min) & (array < float(limits.max) + 1) & (np.trunc(array) == array)
    elif array.dtype.kind == "u":
        fits = array <= limits.max
    else:
        fits = (array >= limits.min) & (array <= limits.max)
    with np.errstate(invalid="ignore"):
        return array.astype(dtype), fits


_CONVERSIONS: dict[str, Callable[[Array, Any], tuple[Array, Array | None]]] = {
    "b": lambda array, dtype: (array.astype(dtype), (array == 0) | (array == 1)),
    "i": _to_integers,
    "u": _to_integers,
    "f": _to_floats,
}
