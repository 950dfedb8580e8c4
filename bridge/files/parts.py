"""Parts of files, which travel through Flink in place of their rows: about 100 bytes each, as Arrow batches."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bridge.codec.ipc import read_batch
from bridge.files.listing import FoundFile

WHOLE = -1  # group of formats without groups
TO_THE_END = -1  # rows of a part whose number is unknown
UNIT_BYTES = 16 << 20
_UNIT_FILES = 64


class Unit(NamedTuple):
    """One of equal shares of a file's groups: a file can be split before it is opened."""

    path: str
    size: int
    number: int
    shares: int


class FilePart(NamedTuple):
    """Rows of a file.

    Args:
        path: Local path or address.
        format: Name in `bridge.files.formats.FORMATS`.
        group: Row group, record batch or stripe; WHOLE for formats that are read from the beginning.
        first: First row in the group.
        rows: Number of rows; TO_THE_END for the rest.
    """

    path: str
    format: str
    group: int
    first: int
    rows: int


_UNIT = pa.schema([("path", pa.string()), ("size", pa.int64()), ("number", pa.int32()), ("shares", pa.int32())])
_PART = pa.schema(
    [("path", pa.string()), ("format", pa.string()), ("group", pa.int32()), ("first", pa.int64()), ("rows", pa.int64())]
)


def units_of(files: Iterable[FoundFile], has_groups: bool) -> Iterator[list[Unit]]:
    """Yield lists of units; files of one list have about 16 MB or are few."""
    waiting: list[Unit] = []
    size = 0
    for file in files:
        shares = max(1, -(-file.size // UNIT_BYTES)) if has_groups else 1
        for number in range(shares):
            waiting.append(Unit(file.path, file.size, number, shares))
            size += file.size // shares
            if size >= UNIT_BYTES or len(waiting) == _UNIT_FILES:
                yield waiting
                waiting, size = [], 0
    if waiting:
        yield waiting


def units_to_arrow(units: Sequence[Unit]) -> bytes:
    return _to_arrow(units, _UNIT)


def units_from(batch: pa.RecordBatch) -> list[Unit]:
    return [Unit(*row) for row in zip(*(column.to_pylist() for column in batch.columns))]


def parts_to_arrow(parts: Sequence[FilePart]) -> bytes:
    return _to_arrow(parts, _PART)


def parts_from(batch: pa.RecordBatch | pa.Table) -> list[FilePart]:
    return [FilePart(*row) for row in zip(*(column.to_pylist() for column in batch.columns))]


def share_of(parts: Iterable[bytes], member: int, members: int, seed: int | None = None) -> list[FilePart]:
    """Rows of one of several members, whose numbers of rows differ by one at most; each of them finds its own share.

    Whole groups, in the order of paths or in an order drawn with `seed`, go to the member that lacks most rows. A group with
    more rows than every member lacks is cut at the end.
    """
    found = pa.Table.from_batches(map(read_batch, parts), _PART).sort_by([(name, "ascending") for name in _PART.names])
    rows = found["rows"].to_pylist()
    order = range(len(rows)) if seed is None else np.random.default_rng(seed).permutation(len(rows)).tolist()
    whole, more = divmod(sum(rows), members)
    lacking = [(-(whole + (each < more)), each) for each in range(members)]
    heapq.heapify(lacking)
    own: list[tuple[int, int, int]] = []
    rest: list[int] = []
    for place in order:
        lacks, owner = lacking[0]
        if rows[place] > -lacks:
            rest.append(place)
            continue
        heapq.heapreplace(lacking, (lacks + rows[place], owner))
        if owner == member and rows[place]:
            own.append((place, 0, rows[place]))
    for place in rest:
        first = 0
        while first < rows[place]:
            lacks, owner = lacking[0]
            taken = min(rows[place] - first, -lacks)
            heapq.heapreplace(lacking, (lacks + taken, owner))
            if owner == member:
                own.append((place, first, taken))
            first += taken
    chosen = parts_from(found.take(pa.array([place for place, _, _ in own], pa.int64())))
    return [part._replace(first=part.first + first, rows=taken) for part, (_, first, taken) in zip(chosen, own)]


def _to_arrow(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> bytes:
    """Arrow stream of one batch; compressed, as PyFlink keeps the list of a million files in a queue."""
    columns = [pa.array(cells, field.type) for cells, field in zip(zip(*rows), schema)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(pa.record_batch(columns, schema=schema))
    return bytes(sink.getvalue())
