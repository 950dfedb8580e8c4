"""Conversion of cells to the values of an input of strings, which are bytes objects. Pure."""

from typing import Any, Optional, Sequence, Union

import numpy as np

from akdl.serving.number_cells import Array, shown
from akdl.serving.prediction_errors import CellError


class StringCells:
    """Reads cells of strings or bytes, or of lists of them."""

    dtype = np.dtype(object)

    def whole(self, cells: Union[Array, Sequence[Any]]) -> Optional[Array]:
        """All cells in one array; None if they have to be converted one at a time."""
        if isinstance(cells, np.ndarray):
            return _encoded(cells) if cells.dtype.kind in "USO" else None
        return _encoded(np.array(cells, object)) if {type(cell) for cell in cells} <= {str, bytes} else None

    def single(self, cell: Any) -> Array:
        if isinstance(cell, (str, bytes)):
            array = np.empty((), object)
            array[()] = cell
            return _encoded(array)
        try:
            array = np.array(cell, object)
        except ValueError:
            raise CellError(f"expected an array, got lists of different length: {shown(cell)}") from None
        return _encoded(array)


def _encoded(array: Array) -> Array:
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
