"""The first cell that cannot be converted: conversions of whole columns are fast, and their errors
name no row.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa


def first_wrong(
    convert: Callable[[pa.Array], object],
    cells: pa.Array,
    error: Exception,
    errors: tuple[type[Exception], ...] = (pa.ArrowException,),
) -> tuple[int, Exception]:
    """Return the place of the first cell that `convert` refuses, and its error.

    Halving needs few conversions, also for a million cells, because all cells before `right` are
    known to be good.

    Args:
        convert: Takes a part of the cells.
        cells: A list or an array, which `convert` has refused as a whole.
        error: The error of the whole, which stands for a single cell.
        errors: What `convert` raises for a wrong cell.
    """
    right = 0
    wrong = len(cells)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        try:
            convert(cells[right:middle])
            right = middle
        except errors as failure:
            wrong = middle
            error = failure
    # All cells of the last part that was refused are good but for its last one, so the error is
    # about this one.
    return right, error
