"""Cells of a column to the values of a model's input. Pure.

What a cell may be for an input of numbers or booleans:
- a number, or a list or array of them. What comes flat takes the input's shape where the count fits, so an ARRAY of 784
  numbers does for [28, 28]. Numbers are converted where nothing but digits of a fraction is lost: 3.0 is an integer, 3.5
  and 300 are none for uint8.
- a string: numbers split at commas and white space, with their shape in front where it is not clear: "$2 3$1 2 3 4 5 6".
- bytes: the raw little-endian elements in row-major order.

For an input of strings: strings, bytes, or lists of them.

Most columns are converted as a whole. Where that does not work, cells are taken one by one, to name the bad ones.
"""

import decimal
import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from akdl.serving.errors import CellError, SignatureError
from akdl.serving.signature import TensorDescription, shape_text

Array = Any  # numpy's own generic type is not there in the oldest numpy that we run on

NUMBERS = {
    "bool": "?", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2", "uint32": "u4",
    "uint64": "u8", "float16": "f2", "float32": "f4", "float64": "f8",
    "bfloat16": "f4",  # numpy has no such type: float32 until the very end
}  # fmt: skip
_SHAPE = re.compile(r"\s*\$([^$]*)\$")
_NULL = "expected a value, got null"
_BOOLEANS = {"true": 1, "false": 0, "1": 1, "0": 0}


class Converted(NamedTuple):
    """The values of an input.

    Args:
        values: One array with rows on the first axis, or a list with the array of each row, None for a bad one.
        errors: Row to what is wrong with it.
    """

    values: Union[Array, List[Optional[Array]]]
    errors: Dict[int, str]

    def shape(self, row: int) -> Tuple[int, ...]:
        """Return the shape of a row's value."""
        if not isinstance(self.values, list):
            return tuple(self.values.shape[1:])
        value = self.values[row]
        return () if value is None else tuple(value.shape)

    def take(self, rows: Sequence[int]) -> Array:
        """Return the values of some rows, which have equal shapes, stacked."""
        if isinstance(self.values, list):
            return np.stack([self.values[row] for row in rows])
        if isinstance(rows, range):  # consecutive ones: a view, where picking took 60 % of a small model's time
            return self.values[rows.start : rows.stop]
        return self.values[list(rows)]


class InputConverter:
    """Converts the cells of one column for one input.

    Args:
        tensor: The input.
        column: The column's name.
        batch_dim_in_cell: Whether a cell is a whole tensor with the batch dimension, and not one element of a batch.
        utf8: Whether cells of bytes are strings.

    Raises:
        SignatureError: The input is of a kind that no column can feed.
    """

    def __init__(self, tensor: TensorDescription, column: str, batch_dim_in_cell: bool = False, utf8: bool = False) -> None:
        if not tensor.tensor:
            raise SignatureError(f"the input {tensor} is no plain tensor; sparse and ragged inputs cannot be fed from a column")
        if tensor.dtype not in NUMBERS and tensor.dtype != "string":
            raise SignatureError(f"the input {tensor} has a type that cannot be fed from a column")
        if tensor.shape == () and not batch_dim_in_cell:
            raise SignatureError(
                f"the input {tensor} has no batch dimension; a model that takes single tensors needs cellsHoldBatches"
            )
        self.key = tensor.key
        self.column = column
        self.fixed_batch = None if batch_dim_in_cell or tensor.shape is None or tensor.shape[0] < 0 else tensor.shape[0]
        self._is_text = tensor.dtype == "string"
        self._decodes = utf8 and not self._is_text
        self._dtype = np.dtype(object if self._is_text else NUMBERS[tensor.dtype])
        self._has_raw_form = tensor.dtype != "bfloat16"
        self._shape = tensor.shape if batch_dim_in_cell or tensor.shape is None else tensor.shape[1:]
        self._where = f"input {tensor.key!r} ({tensor.dtype} {shape_text(self._shape)}) from column {column!r}"

    def convert(self, cells: Any) -> Converted:
        """Convert all cells of a batch.

        Args:
            cells: An array with rows on the first axis, or a sequence of cells. None, and what a masked array masks, is null.
        """
        if self._decodes and isinstance(cells, list):
            cells = [cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell for cell in cells]
        whole = self._whole(cells)
        if whole is not None:
            return Converted(whole, {})
        nulls = [row for row, cell in enumerate(cells) if cell is None] if isinstance(cells, list) else []
        if nulls:
            whole = self._whole([cell for cell in cells if cell is not None])
            if whole is not None:
                return self._with_nulls(whole, nulls, len(cells))
        values: List[Optional[Array]] = []
        errors: Dict[int, str] = {}
        for row, cell in enumerate(_unmasked(cells)):
            value = None
            try:
                value = self._single(cell)
            except CellError as error:
                errors[row] = f"{self._where}: {error}"
            values.append(value)
        found = [value for value in values if value is not None]
        if not errors and len({value.shape for value in found}) == 1:
            return Converted(np.stack(found), {})
        return Converted(values, errors)

    def _with_nulls(self, present: Array, nulls: List[int], rows: int) -> Converted:
        """Return all cells, those that are null as errors."""
        values = np.zeros((rows, *present.shape[1:]), present.dtype)
        valid = np.ones(rows, bool)
        valid[nulls] = False
        values[valid] = present
        return Converted(values, dict.fromkeys(nulls, f"{self._where}: {_NULL}"))

    def _whole(self, cells: Any) -> Optional[Array]:
        """Return all cells in one array, or None where they have to be looked at one by one."""
        try:
            array = self._uniform(cells)
            if array is None or (not self._is_text and array.dtype.kind not in "biuf"):
                return None
            return self._shaped(array if self._is_text else self._cast(array))
        except CellError:
            return None

    def _uniform(self, cells: Any) -> Optional[Array]:
        if isinstance(cells, np.ma.MaskedArray):
            return None
        if hasattr(cells, "numpy"):  # an eager tensor
            cells = cells.numpy()
        if isinstance(cells, np.ndarray) and self._is_text:
            return _encoded(cells) if cells.dtype.kind in "USO" else None
        if isinstance(cells, np.ndarray) and cells.dtype != object:
            return cells
        cells = list(cells)
        if not cells:
            return np.zeros((0, *(max(0, size) for size in self._shape or ())), self._dtype)
        types = {type(cell) for cell in cells}
        if self._is_text:
            return _encoded(np.array(cells, object)) if types <= {str, bytes} else None
        if types == {bytes}:
            return self._raw_rows(cells)
        if len(types) == 1 and isinstance(cells[0], np.ndarray):
            same = len({(cell.shape, cell.dtype) for cell in cells}) == 1
            return np.stack(cells) if same else None
        if str in types or bytes in types or type(None) in types:
            return None
        return self._numbers(cells)

    def _numbers(self, cells: Any) -> Optional[Array]:
        try:
            array = np.array(cells)
        except (ValueError, TypeError, OverflowError):  # ragged
            return None
        # An integer beside a float has become a float, perhaps another number.
        return None if array.dtype.kind == "f" and self._dtype.kind in "iu" else array

    def _raw_rows(self, cells: List[bytes]) -> Optional[Array]:
        size = len(cells[0])
        if any(len(cell) != size for cell in cells):
            return None
        return self._raw(b"".join(cells)).reshape(len(cells), -1) if size else None

    def _single(self, cell: Any) -> Array:
        if cell is None:
            raise CellError(_NULL)
        if isinstance(cell, np.ma.MaskedArray) and np.ma.is_masked(cell):  # type: ignore[no-untyped-call]
            raise CellError("expected values, got an array with null elements")
        if self._is_text:
            return self._one(_encoded(_objects(cell)))
        if isinstance(cell, str):
            return self._one(self._from_text(cell))
        if isinstance(cell, (bytes, bytearray)):
            return self._one(self._raw(bytes(cell)))
        return self._one(self._cast(self._plain_numbers(cell)))

    def _plain_numbers(self, cell: Any) -> Array:
        """Return an array of numbers or booleans."""
        try:
            array = np.asarray(cell)
        except (ValueError, TypeError):
            raise CellError(f"expected an array, got lists of different length: {_shown(cell)}") from None
        if array.dtype == object and any(element is None for element in array.flat):
            raise CellError(f"expected values, got an array with null elements: {_shown(cell)}")
        if array.dtype == object and all(isinstance(element, (decimal.Decimal, int)) for element in array.flat):
            exact = self._dtype.kind in "iu" and all(element == int(element) for element in array.flat)
            try:
                array = np.array([int(n) if exact else float(n) for n in array.flat]).reshape(array.shape)
            except OverflowError:
                raise CellError(f"expected {self._dtype}, got {_shown(cell)}") from None
        if array.size == 0 and array.dtype.kind != "O":
            return array.astype(self._dtype)
        if array.dtype.kind not in "biuf":
            raise CellError(f"expected numbers, got {type(cell).__name__}: {_shown(cell)}")
        return array

    def _from_text(self, text: str) -> Array:
        found = _SHAPE.match(text)
        elements = (text[found.end() :] if found else text).replace(",", " ").split()
        try:
            shape = tuple(int(size) for size in found.group(1).replace(",", " ").split()) if found else None
            if self._dtype.kind == "b":
                array = np.array([_BOOLEANS[element.lower()] for element in elements], bool)
            else:
                wide = {"i": "i8", "u": "u8", "f": "f8"}[self._dtype.kind]
                array = np.array([_integer(element) if wide != "f8" else float(element) for element in elements], wide)
        except (ValueError, KeyError, OverflowError):
            raise CellError(f"cannot be read as {self._dtype} numbers: the string {_shown(text)}") from None
        array = self._cast(array)
        if shape is None:
            return array.reshape(()) if array.size == 1 and self._shape is None else array
        if min(shape, default=0) < 0 or array.size != int(np.prod(shape, dtype=np.int64)):
            raise CellError(f"the string has {array.size} numbers and says that their shape is {shape_text(shape)}")
        return array.reshape(shape)

    def _raw(self, content: bytes) -> Array:
        if not self._has_raw_form:
            raise CellError("bytes cannot be read as bfloat16")
        if len(content) % self._dtype.itemsize:
            raise CellError(f"expected {self._dtype.itemsize} bytes for each element, got {len(content)} bytes")
        return np.frombuffer(content, self._dtype.newbyteorder("<")).astype(self._dtype)

    def _cast(self, array: Array) -> Array:
        """Convert numbers to the input's type, or say which one does not fit."""
        if array.dtype == self._dtype:
            return array
        kind, was = self._dtype.kind, array.dtype.kind
        if kind == "f":
            with np.errstate(over="ignore"):
                result = array.astype(self._dtype)
            fits = np.isfinite(result) | ~np.isfinite(array) if was == "f" or self._dtype.itemsize == 2 else None
        elif kind == "b":
            result, fits = array.astype(bool), (array == 0) | (array == 1)
        elif was == "b":
            return array.astype(self._dtype)
        else:
            info = np.iinfo(self._dtype)
            if was == "f":
                fits = (array >= info.min) & (array < float(info.max) + 1) & (np.trunc(array) == array)
            else:
                fits = array <= info.max if was == "u" else (array >= info.min) & (array <= info.max)
            with np.errstate(invalid="ignore"):
                result = array.astype(self._dtype)
        if fits is not None and not np.all(fits):
            first = np.asarray(array)[~np.asarray(fits)].flat[0]
            raise CellError(f"the number {first} does not fit into {self._dtype}")
        return result

    def _one(self, array: Array) -> Array:
        """Give a row the input's shape; unlike an index, this leaves an array where a row is one object."""
        rows = self._shaped(array[np.newaxis])
        return rows.reshape(rows.shape[1:])

    def _shaped(self, array: Array) -> Array:
        """Give each row, on the first axis, the input's shape."""
        own, wanted = array.shape[1:], self._shape
        if wanted is None or (len(own) == len(wanted) and all(size in (-1, is_) for size, is_ in zip(wanted, own))):
            return array
        known = int(np.prod([size for size in wanted if size >= 0], dtype=np.int64))
        count = int(np.prod(own, dtype=np.int64))
        unknown = sum(size < 0 for size in wanted)
        if len(own) <= 1 and (count == known if not unknown else unknown == 1 and known and count % known == 0):
            return array.reshape(len(array), *(size if size >= 0 else count // known for size in wanted))
        hint = "; several dimensions are open, so give the value its shape" if unknown > 1 and len(own) <= 1 else ""
        raise CellError(f"expected the shape {shape_text(wanted)}, got {shape_text(own)}{hint}")


def _unmasked(cells: Any) -> Sequence[Any]:
    if not isinstance(cells, np.ma.MaskedArray):
        return list(cells)
    masks = np.ma.getmaskarray(cells).reshape(len(cells), -1).all(axis=1)  # type: ignore[no-untyped-call]
    return [None if masked and cells[row].size else cells[row] for row, masked in enumerate(masks)]


def _objects(cell: Any) -> Array:
    if isinstance(cell, (str, bytes)):
        array = np.empty((), object)
        array[()] = cell
        return array
    try:
        return np.array(cell, object)
    except ValueError:
        raise CellError(f"expected an array, got lists of different length: {_shown(cell)}") from None


def _encoded(array: Array) -> Array:
    """Return an array of bytes objects."""
    if array.dtype == object and set(map(type, array.reshape(-1).tolist())) <= {bytes}:
        return array
    result = np.empty(array.shape, object)
    for place, element in enumerate(array.flat):
        if isinstance(element, str):
            element = element.encode("utf-8")
        elif not isinstance(element, bytes):
            raise CellError(f"expected a string or bytes, got {'null' if element is None else type(element).__name__}")
        result.flat[place] = element
    return result


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():
            raise
        return int(number)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:80] + "..."
