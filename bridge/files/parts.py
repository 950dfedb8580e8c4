"""Parts of files, which travel through Flink in place of their rows.

A part has about 100 bytes and stands for about 1 MB of rows, so the rows of files do not pass the
JVM before a script or a predictor reads them.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bridge.codec.ipc import read_batch
from bridge.files.listing import FoundFile
from bridge.formats.columnar import TO_THE_END

# At most so many files have the same number, however small they are: each has to be opened.
_FILES = 64


class FilePart(NamedTuple):
    """Rows of a file.

    Args:
        path: Local path or address.
        group: Row group, record batch or stripe; WHOLE for formats that are read from the
            beginning.
        first: First row in the group.
        rows: Number of rows; TO_THE_END for the rest.
    """

    path: str
    group: int
    first: int
    rows: int


_FILE = pa.schema([("path", pa.string()), ("size", pa.int64())])
_PART = pa.schema(
    [("path", pa.string()), ("group", pa.int32()), ("first", pa.int64()), ("rows", pa.int64())]
)


class GroupCut(NamedTuple):
    """A group of rows, whose rows may be unknown, and its parts: `parts` of `step` rows each, but
    for the last one.
    """

    whole: FilePart
    step: int
    parts: int
    size: int


class CutParts(Sequence[tuple[FilePart, int]]):
    """Parts of groups, and their bytes, made when they are asked for: a damaged file may claim any
    number of rows.
    """

    def __init__(self, groups: Sequence[GroupCut]) -> None:
        self._groups = groups
        self._ends = list(accumulate(group.parts for group in groups))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> tuple[FilePart, int]:  # type: ignore[override]  # no slices
        if not 0 <= index < len(self):
            # Iteration over a `Sequence` ends at this error.
            raise IndexError(index)
        place = bisect_right(self._ends, index)
        whole, step, count, size = self._groups[place]
        number = index - self._ends[place] + count
        if whole.rows >= 0:
            rows = min(step, whole.rows - number * step)
            return whole._replace(first=number * step, rows=rows), size * rows // max(whole.rows, 1)
        rows = step if number < count - 1 else TO_THE_END
        return whole._replace(first=number * step, rows=rows), size // count


class NumberedFiles:
    """Files whose parts have numbers from 0 to `count`, by the sizes of the files alone.

    About `step` bytes have the same number. No file is opened for this, so a million files can be
    listed when a job is planned; the list is compressed, 15 MB for a million, as it travels in the
    job. Which parts a number stands for is found where they are read.
    """

    def __init__(self, files: Iterator[FoundFile], step: int) -> None:
        self._step = step
        self._least = -(-step // _FILES)
        total = 0
        self._contents: list[bytes] = []
        while some := list(islice(files, 1 << 16)):
            # The listing is packed in blocks, so that the driver never holds a million Python
            # tuples.
            self._contents.append(_to_arrow(some, _FILE))
            total += sum(max(file.size, self._least) for file in some)
        self.count = -(-total // step)

    def join(self, numbers: int) -> None:
        """Let each number stand for so many of them."""
        self._step = self._step * numbers
        self.count = -(-self.count // numbers)

    @cached_property
    def _files(self) -> tuple[pa.ChunkedArray, NDArray[np.int64]]:
        """Paths, and the place behind each file in the row of all bytes."""
        found = pa.Table.from_batches(map(read_batch, self._contents))
        return found["path"], np.cumsum(np.maximum(found["size"].to_numpy(), self._least))

    def parts_at(
        self, number: int, parts_of: Callable[[str], Sequence[tuple[FilePart, int]]]
    ) -> Iterator[FilePart]:
        """Yield the parts of a number; `parts_of` finds all parts of a file, and their bytes."""
        paths, ends = self._files
        place = int(np.searchsorted(ends, number * self._step, "right"))
        start = int(ends[place - 1]) if place else 0
        while place < len(ends) and start < (number + 1) * self._step:
            parts = parts_of(paths[place].as_py())
            size = int(ends[place]) - start
            # Part i begins at the byte start + size * i / count, so each number has a range of
            # parts.
            first, end = (
                -((start - each * self._step) * len(parts) // size) for each in (number, number + 1)
            )
            for index in range(max(first, 0), min(end, len(parts))):
                yield parts[index][0]
            start = start + size
            place = place + 1


def parts_to_arrow(parts: Sequence[FilePart]) -> bytes:
    return _to_arrow(parts, _PART)


def parts_from(batch: pa.RecordBatch | pa.Table) -> list[FilePart]:
    return [FilePart(*row) for row in zip(*(column.to_pylist() for column in batch.columns))]


def share_of(
    parts: Iterable[bytes], member: int, members: int, seed: int | None = None
) -> list[FilePart]:
    """Return the rows of one of several members. Shares differ by one row at most.

    Whole groups, in the order of paths or in an order drawn with `seed`, go to the member that
    lacks most rows. A group with more rows than every member lacks is cut at the end. Each member
    computes this for itself, so it may depend on nothing but the parts.

    Args:
        parts: All parts of all files, as Arrow, in any order.
        member: Number of this member among the members that get rows.
    """
    # Each member gets the parts in another order, so they are sorted first.
    found = pa.Table.from_batches(map(read_batch, parts), _PART).sort_by(
        [(name, "ascending") for name in _PART.names]
    )
    rows = found["rows"].to_pylist()
    order = (
        range(len(rows))
        if seed is None
        else np.random.default_rng(seed).permutation(len(rows)).tolist()
    )
    whole, more = divmod(sum(rows), members)
    # The numbers are negative because `heapq` yields the smallest. At equal numbers the lowest
    # member comes first, so all members compute the same shares.
    lacking = [(-(whole + (each < more)), each) for each in range(members)]
    heapq.heapify(lacking)
    own = []
    rest = []

    def deal(place: int, first: int, taken: int) -> None:
        """Give rows of a group to the member that lacks most."""
        lacks, owner = lacking[0]
        heapq.heapreplace(lacking, (lacks + taken, owner))
        if owner == member and taken:
            own.append((place, first, taken))

    for place in order:
        if rows[place] > -lacking[0][0]:
            rest.append(place)
        else:
            deal(place, 0, rows[place])
    for place in rest:
        first = 0
        while first < rows[place]:
            taken = min(rows[place] - first, -lacking[0][0])
            deal(place, first, taken)
            first += taken
    chosen = parts_from(found.take(pa.array([place for place, _, _ in own], pa.int64())))
    return [
        part._replace(first=part.first + first, rows=taken)
        for part, (_, first, taken) in zip(chosen, own)
    ]


def _to_arrow(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> bytes:
    """Arrow stream of one batch; compressed, as it travels in the job."""
    columns = [pa.array(cells, field.type) for cells, field in zip(zip(*rows), schema)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
    ) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    return bytes(sink.getvalue())
