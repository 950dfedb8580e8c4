"""Cutting, choosing and joining rows with operations on whole columns, without nulls. Pure.

`batches` uses them between the decoding of a chunk and the tensors. Nulls have been refused or
replaced before, so no function here looks at `valid`. Offsets may have 64 bits, because many rows
joined can hold more bytes than one message, whose offsets have 32.
"""

from typing import Any, List, NamedTuple, Sequence

import numpy as np

from akdl.wire.byte_ranges import joined_ranges, packed_offsets
from akdl.wire.cells import Array, Cells


class Table(NamedTuple):
    """Rows as columns of equal length; it has its own count because a table may have no columns."""

    rows: int
    columns: List[Cells]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for cells in self.columns for part in cells if part is not None)

    def cut(self, start: int, end: int) -> "Table":
        """Return the rows from `start` to before `end`, as views of the same values."""
        if (start, end) == (0, self.rows):
            return self
        return Table(end - start, [_cut(cells, start, end) for cells in self.columns])

    def choose(self, rows: Array) -> "Table":
        """Return a copy of the rows with these numbers, in the order of the numbers."""
        return Table(len(rows), [chosen(cells, rows) for cells in self.columns])


def join(tables: Sequence[Table]) -> Table:
    # A batch that lies inside one chunk is not copied.
    if len(tables) == 1:
        return tables[0]
    columns = zip(*(table.columns for table in tables))
    return Table(sum(table.rows for table in tables), [concatenated(column) for column in columns])


def chosen(cells: Cells, rows: Array) -> Cells:
    """Choose rows of a column: numbers, bytes, an ARRAY of numbers, or an ARRAY of bytes."""
    values, _, cell_offsets, value_offsets = cells
    if cell_offsets is None:
        if value_offsets is None:
            return Cells(values[rows])
        data, value_offsets = _chosen_ranges(values, value_offsets, rows)
        return Cells(data, value_offsets=value_offsets)
    if value_offsets is None:
        data, cell_offsets = _chosen_ranges(values, cell_offsets, rows)
        return Cells(data, cell_offsets=cell_offsets)
    # An ARRAY of bytes has two levels of offsets. The lengths of the elements are chosen as if they
    # were numbers; the bytes of a whole cell lie back to back, so each cell is one range of them.
    lengths, chosen_offsets = _chosen_ranges(np.diff(value_offsets), cell_offsets, rows)
    data, _ = _chosen_ranges(values, value_offsets[cell_offsets], rows)
    return Cells(data, cell_offsets=chosen_offsets, value_offsets=packed_offsets(lengths))


def concatenated(pieces: Sequence[Cells]) -> Cells:
    values = np.concatenate([piece.values for piece in pieces])
    cell_offsets = None if pieces[0].cell_offsets is None else _joined_offsets([piece.cell_offsets for piece in pieces])
    value_offsets = None if pieces[0].value_offsets is None else _joined_offsets([piece.value_offsets for piece in pieces])
    return Cells(values, None, cell_offsets, value_offsets)


def _cut(cells: Cells, start: int, end: int) -> Cells:
    cell_offsets, value_offsets = cells.cell_offsets, cells.value_offsets
    if cell_offsets is not None:
        cell_offsets, start, end = _cut_offsets(cell_offsets, start, end)
    if value_offsets is not None:
        value_offsets, start, end = _cut_offsets(value_offsets, start, end)
    return Cells(cells.values[start:end], None, cell_offsets, value_offsets)


def _cut_offsets(offsets: Array, start: int, end: int) -> Any:
    """Offsets of the ranges `start` to `end`, counted from 0, and the bounds of the values that they cover."""
    some = offsets[start : end + 1]
    return some - some[0], int(some[0]), int(some[-1])


def _chosen_ranges(values: Array, offsets: Array, rows: Array) -> Any:
    """Values of the chosen ranges back to back, and the offsets of these ranges."""
    # With 64 bits, since offsets of a message have 32 and their product with the width can have
    # more.
    starts, lengths = offsets[rows].astype(np.int64), np.diff(offsets)[rows].astype(np.int64)
    width = values.dtype.itemsize
    data = joined_ranges(np.ascontiguousarray(values).view(np.uint8), starts * width, lengths * width)
    return data.view(values.dtype), packed_offsets(lengths)


def _joined_offsets(pieces: Sequence[Array]) -> Array:
    ends = np.cumsum([0, *(int(piece[-1]) for piece in pieces)])
    return np.concatenate([ends[:1], *(piece[1:] + end for piece, end in zip(pieces, ends))])
