"""Cutting, choosing, joining and regrouping rows with operations on whole columns. Pure.

`batches` and `arrays` use them between the decoding of a chunk and the batches. Offsets may have 64
bits, because many rows joined can hold more bytes than one message, whose offsets have 32.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Iterator, NamedTuple, Sequence

import numpy as np

from akdl.wire.byte_arrays import joined_ranges, packed_offsets
from akdl.wire.cells import Array, Cells


class Table(NamedTuple):
    """Rows as columns of equal length; it has its own count because a table may have no columns."""

    rows: int
    columns: list[Cells]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for cells in self.columns for part in cells if part is not None)

    def cut(self, start: int, end: int) -> Table:
        """Return the rows from `start` to before `end`, as views of the same values."""
        # A batch that is a whole table keeps its offsets, which a cut would copy.
        if (start, end) == (0, self.rows):
            return self
        return Table(end - start, [_cut(cells, start, end) for cells in self.columns])

    def choose(self, rows: Array) -> Table:
        """Return a copy of the rows with these numbers, in the order of the numbers."""
        return Table(len(rows), [chosen(cells, rows) for cells in self.columns])


class Ragged(NamedTuple):
    """An ARRAY column of a batch of numpy arrays.

    Row i has `values[offsets[i]:offsets[i + 1]]`. Where all rows have equally many values,
    `values.reshape(len(offsets) - 1, -1)` has a row of them each.
    """

    values: Array
    offsets: Array


def join(tables: Sequence[Table]) -> Table:
    # A batch that lies inside one chunk is not copied.
    if len(tables) == 1:
        return tables[0]
    columns = zip(*(table.columns for table in tables))
    return Table(sum(table.rows for table in tables), [concatenated(column) for column in columns])


def shuffled(
    tables: Iterable[Table], buffer_rows: int, random: np.random.RandomState
) -> Iterator[Table]:
    """Yield rows in random order, from a buffer that loses half of its rows whenever it is full.

    On average a row waits as long as in the buffer of `tf.data.Dataset.shuffle`. A larger table
    enlarges the buffer.
    """
    held: list[Table] = []
    count = 0
    for table in tables:
        held.append(table)
        count += table.rows
        # Half of the buffer leaves at once, since choosing rows costs numpy calls for each column,
        # and one row at a time would pay for them with every row.
        if count >= buffer_rows:
            buffer, order = join(held), random.permutation(count)
            stays = buffer_rows // 2
            yield buffer.choose(order[stays:])
            held, count = [buffer.choose(order[:stays])], stays
    if count:
        yield join(held).choose(random.permutation(count))


def batched(
    tables: Iterable[Table], size: int, most_bytes: int = 1 << 20
) -> Iterator[tuple[int, Table]]:
    """Regroup tables into batches of `size` rows, the last one possibly shorter; yield some, and
    their number, as one table.

    A yielded table is not referenced here any longer.
    """
    held: list[Table] = []
    count = 0
    for table in tables:
        start, rows, whole = 0, table.rows, [table]
        # Several batches leave as one table, because each table costs TensorFlow a call of Python.
        # The bound keeps tables of large rows small.
        most = max(1, most_bytes * rows // max(1, table.nbytes * size))
        del table
        while start < rows:
            batches = min((count + rows - start) // size, most)
            end = start + batches * size - count if batches else rows
            held.append(whole[0].cut(start, end))
            start, count = end, count + end - start
            if start == rows:
                # All rows are cut. The list must not hold the table while the receiver has it.
                whole.clear()
            if batches:
                # The table travels in a list, from which the receiver takes its only reference.
                ready, held, count = [join(held)], [], 0
                yield batches, ready.pop()
    if held:
        yield 1, join(held)


def repeated(one_pass: Callable[[], Iterator[Table]], times: int | None) -> Iterator[Table]:
    """Yield the tables of several passes; indefinitely for None, unless a pass is empty.

    A worker without rows would otherwise start passes in an endless loop and never return to
    TensorFlow.
    """
    count = 0
    while times is None or count < times:
        count += 1
        empty = True
        for table in one_pass():
            empty, held = False, [table]
            del table
            yield held.pop()
        if empty:
            return


def chosen(cells: Cells, rows: Array) -> Cells:
    """Choose rows of a column: numbers, bytes, an ARRAY of numbers, or an ARRAY of bytes."""
    values, valid, cell_offsets, value_offsets = cells
    if cell_offsets is None:
        valid = None if valid is None else valid[rows]
        if value_offsets is None:
            return Cells(values[rows], valid)
        data, value_offsets = _chosen_ranges(values, value_offsets, rows)
        return Cells(data, valid, value_offsets=value_offsets)
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
    cell_offsets = _joined_offsets([piece.cell_offsets for piece in pieces])
    value_offsets = _joined_offsets([piece.value_offsets for piece in pieces])
    valid = None
    # Null ARRAYs are empty by now, so only columns of single values have a mask.
    if any(piece.valid is not None for piece in pieces):  # columns of single values only
        sizes = [
            len(piece.values if piece.value_offsets is None else piece.value_offsets[1:])
            for piece in pieces
        ]
        valid = np.concatenate(
            [
                np.ones(size, bool) if piece.valid is None else piece.valid
                for piece, size in zip(pieces, sizes)
            ]
        )
    return Cells(values, valid, cell_offsets, value_offsets)


def _cut(cells: Cells, start: int, end: int) -> Cells:
    cell_offsets, value_offsets = cells.cell_offsets, cells.value_offsets
    valid = None if cells.valid is None else cells.valid[start:end]
    if cell_offsets is not None:
        cell_offsets, start, end = _cut_offsets(cell_offsets, start, end)
    if value_offsets is not None:
        value_offsets, start, end = _cut_offsets(value_offsets, start, end)
    return Cells(cells.values[start:end], valid, cell_offsets, value_offsets)


def _cut_offsets(offsets: Array, start: int, end: int) -> Any:
    """Offsets of the ranges `start` to `end`, counted from 0, and the bounds of the values that
    they cover.
    """
    some = offsets[start : end + 1]
    return some - some[0], int(some[0]), int(some[-1])


def _chosen_ranges(values: Array, offsets: Array, rows: Array) -> Any:
    """Values of the chosen ranges back to back, and the offsets of these ranges."""
    # With 64 bits, since offsets of a message have 32 and their product with the width can have
    # more.
    starts, lengths = offsets[rows].astype(np.int64), np.diff(offsets)[rows].astype(np.int64)
    width = values.dtype.itemsize
    data = joined_ranges(
        np.ascontiguousarray(values).view(np.uint8), starts * width, lengths * width
    )
    return data.view(values.dtype), packed_offsets(lengths)


def _joined_offsets(pieces: Sequence[Any]) -> Array:
    """Offsets of ranges whose pieces are joined; None for columns without offsets."""
    if pieces[0] is None:
        return None
    ends = np.cumsum([0, *(int(piece[-1]) for piece in pieces)])
    return np.concatenate([ends[:1], *(piece[1:] + end for piece, end in zip(pieces, ends))])
