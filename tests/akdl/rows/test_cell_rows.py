"""Rows of columns are cut, chosen and joined as lists of their cells would be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from akdl.rows.cell_rows import Table, join
from tests.support.random_rows import TYPES, cells_of, random_cells

RANDOM = np.random.RandomState(5)
COLUMNS = random_cells(TYPES, 60, 0, RANDOM)


def table(start: int, end: int) -> Table:
    """Return rows of all types."""
    columns = [cells_of(cells[start:end], TYPES[name]) for name, cells in COLUMNS.items()]
    return Table(end - start, [cells._replace(valid=None) for cells in columns])


def plain(table: Table) -> list[list[Any]]:
    """Return the cells of each column."""
    found = []
    for values, _, cell_offsets, value_offsets in table.columns:
        flat: list[Any] = values.tolist()
        for offsets in (value_offsets, cell_offsets):
            if offsets is not None:
                assert offsets[0] == 0 and offsets[-1] == len(flat)
                flat = [flat[start:end] for start, end in zip(offsets, offsets[1:])]
        assert len(flat) == table.rows
        found.append(flat)
    return found


WHOLE = plain(table(0, 60))


@pytest.mark.parametrize(("start", "end"), [(0, 60), (0, 1), (17, 43), (59, 60), (30, 30)])
def test_cut_returns_a_range_of_rows(start: int, end: int) -> None:
    assert plain(table(0, 60).cut(start, end)) == [cells[start:end] for cells in WHOLE]


@pytest.mark.parametrize("rows", [[], [59], [3, 3, 0], RANDOM.permutation(60).tolist()])
def test_choose_returns_the_rows_of_the_given_numbers(rows: Any) -> None:
    assert plain(table(0, 60).choose(np.array(rows, np.int64))) == [
        [cells[row] for row in rows] for cells in WHOLE
    ]


def test_join_puts_tables_together_in_order() -> None:
    whole = join([table(0, 10).cut(0, 5), table(5, 5), table(5, 31), table(0, 60).cut(31, 60)])
    assert plain(whole) == WHOLE
    one = table(0, 3)
    assert join([one]) is one
