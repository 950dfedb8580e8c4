"""Readers of Parquet, Arrow and ORC files, row group by row group.

Readers use one thread each, since Flink runs one per slot, and hold little more than a batch. The
files may come from strangers, so no number in a file decides how much memory is taken: a batch is
bounded by the texts that its rows may repeat, and offsets are validated before cells are used.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as po
import pyarrow.parquet as pq
import pyarrow.types as pt
from pyarrow import ipc

from akdl.storage.files import is_remote, opened_with_fsspec
from bridge.codec.first_wrong import first_wrong
from bridge.exceptions import RowError
from bridge.formats.file_columns import FileColumn, cells_for_flink

Batches = Iterator[pa.RecordBatch]

# Formats without groups have this one group.
WHOLE = -1
# A part or a group has this number of rows if the real one is unknown.
TO_THE_END = -1
# A batch has at most so many rows, since encoded sizes say little about repeated text.
MOST_ROWS = 1 << 16
# A batch stays below this size even if each of its rows has the longest text of a dictionary.
_TEXT_BYTES = 64 << 20
PACKED = {"gzip": ".gz", "bz2": ".bz2", "zstd": ".zst"}
# Packed text is taken for a tenth of the text in it. Only the number of parts of a file follows
# from this, so a wrong estimate costs time and no rows.
_PACKED_TIMES = 10
_SAMPLE_ROWS = _DELTA_ROWS = 1024
# With at most so many rows in a group, numbers of parts stay below 2**63, the most that Python's
# sequences can count.
_MOST_OF_GROUP = 1 << 48


class RowGroup(NamedTuple):
    """A group of rows and an estimate of its bytes. Where `rows` are unknown, the first of them are
    a sample.
    """

    number: int
    rows: int
    size: int
    sample_rows: int = 0
    sample_size: int = 0


class FileReader:
    """An open file, read by one thread.

    Attributes:
        schema: Columns and types as the file has them; a file of text has types by its reader.
        size: Bytes of the file, packed if it is.
    """

    schema: pa.Schema
    size: int  # bytes of the file

    def groups(self, columns: Sequence[str]) -> Iterator[RowGroup]:
        """Yield the groups, with estimates for some columns."""
        raise NotImplementedError

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Batches:
        """Yield the rows of a group in batches of at most `rows`, where the format permits it."""
        raise NotImplementedError

    def cells(self, column: FileColumn, cells: pa.Array, row: int) -> pa.Array:
        """Cells of a batch in the type of their column; the first is in this row of the file.
        RowError if one does not fit.
        """
        return cells_for_flink(column, cells, row)


class ParquetReader(FileReader):
    """A Parquet file."""

    def __init__(self, path: str, *_: object) -> None:
        # Local columns are read in small pieces. From a storage, all columns of a row group are
        # read ahead, with few calls.
        remote = is_remote(path)
        self._path = path
        source = open_file(path)
        buffer = 0 if remote else 1 << 16
        self._read = functools.partial(pq.ParquetFile, pre_buffer=remote, buffer_size=buffer)
        # Old files have instants as INT96. Nanoseconds in 64 bits end in 2262, and "no end" of a
        # warehouse is 9999-12-31, so they are read in microseconds first.
        self.file = self._read(source, coerce_int96_timestamp_unit="us")
        self.schema = self.file.schema_arrow
        self.size = source.size()

    def groups(self, columns: Sequence[str]) -> Iterator[RowGroup]:
        metadata = self.file.metadata
        leaves = self._leaves(columns)
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            # A damaged file may claim any number of rows, which parts of files would count.
            if not 0 <= group.num_rows < _MOST_OF_GROUP:
                raise ValueError(f"its row group {number} claims to have {group.num_rows} rows")
            yield RowGroup(
                number,
                group.num_rows,
                sum(group.column(place).total_uncompressed_size for place, _ in leaves),
            )

    def _leaves(self, columns: Sequence[str]) -> list[tuple[int, str]]:
        """Places of columns in the file, and their paths, each of which ends with a point."""
        schema = self.file.metadata.schema
        paths = ((place, f"{schema.column(place).path}.") for place in range(len(schema)))
        return [
            (place, path)
            for place, path in paths
            if any(path.startswith(f"{name}.") for name in columns)
        ]

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Batches:
        schema = self.file.metadata.schema
        leaves = self._leaves(columns)
        rows = self._bounded(group, leaves, rows)
        batches = self.file.iter_batches(rows, [group], list(columns), use_threads=False)
        paths = [path for place, path in leaves if schema.column(place).physical_type == "INT96"]
        int96 = [name for name in columns if any(path.startswith(f"{name}.") for path in paths)]
        return checked(self._with_nanoseconds(batches, group, int96, rows) if int96 else batches)

    def _bounded(self, group: int, leaves: Sequence[tuple[int, str]], rows: int) -> int:
        """Rows of a batch that stays small where each row has the longest text of a dictionary.

        A dictionary has each text once, so a file of a kilobyte can claim 65,536 texts of a
        megabyte.
        """
        found = self.file.metadata.row_group(group)
        longest = 0
        for place, path in leaves:
            chunk = found.column(place)
            if (
                chunk.physical_type != "BYTE_ARRAY"
                or chunk.total_uncompressed_size * rows <= _TEXT_BYTES
            ):
                continue
            # In this encoding a text begins like the one before it, with any number of characters,
            # so a few bytes can stand for a long text.
            if "DELTA_BYTE_ARRAY" in chunk.encodings:
                rows = min(rows, _DELTA_ROWS)
            file = self._read(
                open_file(self._path), metadata=self.file.metadata, read_dictionary=[path[:-1]]
            )
            # This reader leaves the texts in their dictionary, so that the longest one is found
            # without a copy for each row.
            samples = file.iter_batches(_SAMPLE_ROWS, [group], [path[:-1]], use_threads=False)
            # There is no dictionary before the first value.
            of_path = next(filter(None, (_longest(sample.column(0)) for sample in samples)), 0)
            # A row of an array has several values, each of which may be the longest text.
            longest += of_path * -(-chunk.num_values // max(found.num_rows, 1))
        return min(rows, max(1, _TEXT_BYTES // max(longest, 1)))

    def _with_nanoseconds(
        self, batches: Batches, group: int, int96: Collection[str], rows: int
    ) -> Batches:
        """Batches whose INT96 columns have nanoseconds where microseconds would lose some."""
        by_arrow = "parquet-cpp" in (self.file.metadata.created_by or "")
        exact = self._read(open_file(self._path)).iter_batches(
            rows, [group], list(int96), use_threads=False
        )
        waiting = None
        for batch in batches:
            # The two readers may cut their batches at different rows.
            while waiting is None or len(waiting) < batch.num_rows:
                waiting = pa.Table.from_batches(
                    [*(() if waiting is None else waiting.to_batches()), next(exact)]
                )
            for name in int96:
                place = batch.schema.get_field_index(name)
                cells = batch.column(place)
                found = pa.concat_arrays(waiting[name].slice(0, batch.num_rows).chunks)
                if by_arrow and not pt.is_nested(cells.type):
                    cells = _before_1970(cells, found)
                # Outside of 1677 to 2262 the reader wraps nanoseconds around, as the cast does. So
                # both agree if microseconds have lost nothing.
                if cells.cast(found.type, safe=False).equals(found):
                    found = cells
                else:
                    # This cast fails for years that nanoseconds do not have.
                    cells.cast(found.type)
                if found is not batch.columns[place]:
                    cells = [*batch.columns[:place], found, *batch.columns[place + 1 :]]
                    batch = pa.record_batch(cells, batch.schema.names)
            waiting = waiting.slice(batch.num_rows)
            yield batch


def _before_1970(cells: pa.Array, found: pa.Array) -> pa.Array:
    """Instants of INT96 that Arrow has written: its negative times of a day are read as 584 years
    more, which is 2**64 ns.

    So an instant between 2262 and 2554 may stand for one before 1970, which `found` has in
    nanoseconds. From a real one between these years, 2**64 ns are missing in `found`, which is not
    a whole number of microseconds.
    """
    numbers, nanoseconds = (
        each.view(pa.int64()).fill_null(0).to_numpy() for each in (cells, found)
    )
    wrong = (
        (numbers > 2**63 // 1000)
        & (numbers <= 2**64 // 1000)
        & (nanoseconds % 1000 != -(2**64) % 1000)
    )
    return pc.if_else(pa.array(wrong), found.cast(cells.type, safe=False), cells)


class ParquetWriter:
    """Writer of a Parquet file, whose tables become row groups."""

    def __init__(self, file: pa.NativeFile, types: pa.Schema, _: object) -> None:
        self._writer = pq.ParquetWriter(file, types)
        self.close = self._writer.close

    def write_table(self, table: pa.Table) -> None:
        columns = [
            (_with_empty_nulls(column.combine_chunks()) if pt.is_nested(column.type) else column)
            for column in table.columns
        ]
        self._writer.write_table(pa.table(columns, table.schema), row_group_size=len(table))


def _with_empty_nulls(cells: pa.Array) -> pa.Array:
    """The same cells, whose null lists have no elements: Parquet refuses them, and lists in null
    structs may have them.
    """
    if pt.is_struct(cells.type):
        fields = [_with_empty_nulls(field) for field in cells.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(cells.type), mask=cells.is_null())
    if not pt.is_nested(cells.type):
        return cells
    # `take` makes new lists, in which null ones have no elements.
    cells = cells.take(pa.array(np.arange(len(cells))))
    if pt.is_list(cells.type) and pt.is_nested(cells.type.value_type):
        return pa.ListArray.from_arrays(
            cells.offsets, _with_empty_nulls(cells.values), cells.type, mask=cells.is_null()
        )
    return cells


class _ArrowFile(FileReader):
    def __init__(self, path: str) -> None:
        self._source = open_file(path)
        self.schema = ipc.open_file(self._source).schema
        self.size = self._source.size()

    def _reader(self, columns: Sequence[str]) -> Any:
        return ipc.open_file(self._source, options=_only(columns, self.schema))

    def groups(self, columns: Sequence[str]) -> Iterator[RowGroup]:
        reader = self._reader(self.schema.names[:1])
        # The end of the file lists its batches without their numbers of rows, so each is read, with
        # the first column alone.
        for number in range(reader.num_record_batches):
            yield RowGroup(
                number, reader.get_batch(number).num_rows, self.size // reader.num_record_batches
            )

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Batches:
        return slices(checked([self._reader(columns).get_batch(group)]), rows)


class UngroupedReader(FileReader):
    """A file without groups, which has one group of unknown rows.

    `_size` estimates the bytes of its rows, and `_first` has the rows and bytes of a sample. Parts
    of such a file are cut by these, and each begins with a read from the first row on.
    """

    _path: str
    _size: int
    _first: tuple[int, int]

    def groups(self, columns: Sequence[str]) -> Iterator[RowGroup]:
        yield RowGroup(WHOLE, TO_THE_END, self._size, *self._first)


class _ArrowStream(UngroupedReader):
    def __init__(self, path: str) -> None:
        self._path = path
        with open_file(path) as source:
            reader = ipc.open_stream(source)
            self.schema = reader.schema
            first = next(checked(reader), None)
            self.size = source.size()
            self._size = 2 * self.size
        self._first = (1, 1) if first is None else (max(1, first.num_rows), max(1, first.nbytes))

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Batches:
        with open_file(self._path) as source:
            yield from slices(
                checked(ipc.open_stream(source, options=_only(columns, self.schema))), rows
            )


def _only(columns: Sequence[str], schema: pa.Schema) -> ipc.IpcReadOptions:
    return ipc.IpcReadOptions(
        included_fields=list(map(schema.get_field_index, columns)), use_threads=False
    )


def arrow_reader(path: str, *_: object) -> FileReader:
    """Open a file of Arrow: a file or a stream of IPC, which have the same endings."""
    with open_file(path) as source:
        # Only the file form of IPC begins with these bytes.
        is_file = source.read(6) == b"ARROW1"
    return _ArrowFile(path) if is_file else _ArrowStream(path)


def arrow_writer(file: pa.NativeFile, types: pa.Schema, _: object) -> ipc.RecordBatchFileWriter:
    return ipc.new_file(file, types, options=ipc.IpcWriteOptions(compression="lz4"))


class OrcReader(FileReader):
    """An ORC file, whose groups are stripes.

    The library reads a stripe as a whole, and ends the process at some damaged files. So ORC files
    of strangers are not supported, unlike Parquet and Arrow.
    """

    def __init__(self, path: str, *_: object) -> None:
        source = open_file(path)
        self._file = po.ORCFile(source)
        self.schema = self._file.schema
        self.size = source.size()

    def groups(self, columns: Sequence[str]) -> Iterator[RowGroup]:
        stripes = self._file.nstripes
        first = self.schema.names[:1]
        for number in range(stripes):
            # pyarrow does not give the rows of a stripe, so its first column is read.
            rows = (
                self._file.nrows if stripes == 1 else self._file.read_stripe(number, first).num_rows
            )
            yield RowGroup(number, rows, self._file.content_length // stripes)

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Batches:
        return slices(checked([self._file.read_stripe(group, list(columns))]), rows)


def checked(batches: Iterable[pa.RecordBatch]) -> Batches:
    """Batches whose offsets, indices and texts are valid; a damaged one would show the memory of
    the process as cells.
    """
    done = 0
    for batch in batches:
        for name, cells in zip(batch.schema.names, batch.columns):
            # Texts that are not UTF-8 may be declared BYTES, and are refused where they become
            # cells.
            if pt.is_string(cells.type):
                cells = cells.view(pa.binary())
            try:
                cells.validate(full=True)
            except pa.ArrowInvalid as error:
                if "UTF8" in str(error):
                    continue
                row, _ = first_wrong(lambda part: part.validate(full=True), cells, error)
                raise RowError(
                    f"column {name!r}, row {done + row + 1} of its row group: the cell is not"
                    f" valid: {error}: write the file again, or leave the column out with"
                    " selectedCols"
                ) from None
        done += batch.num_rows
        yield batch


def slices(batches: Iterable[pa.RecordBatch], rows: int) -> Batches:
    """Yield batches of at most `rows`, which stay small without the dictionaries of their
    columns.
    """
    for batch in batches:
        step = min(rows, max(1, _TEXT_BYTES // max(sum(map(_longest, batch.columns)), 1)))
        for start in range(0, batch.num_rows, step):
            yield batch.slice(start, step)


def _longest(cells: pa.Array) -> int:
    """Bytes of the longest text in the dictionaries of a column."""
    kind = cells.type
    if pt.is_dictionary(kind):
        texts = cells.dictionary
        is_text = (
            pt.is_string(texts.type) or pt.is_binary(texts.type) or pt.is_large_string(texts.type)
        )
        if is_text:
            return int(pc.max(pc.binary_length(texts)).as_py() or 0)
        return int(-(-texts.nbytes // max(len(texts), 1)))
    if pt.is_map(kind):
        return max(_longest(cells.keys), _longest(cells.items))
    if pt.is_struct(kind):
        return sum(_longest(cells.field(place)) for place in range(kind.num_fields))
    return _longest(cells.values) if pt.is_nested(kind) else 0


def open_file(path: str) -> Any:
    """File of pyarrow at a path or an address.

    The file is not mapped into memory: if another program made it shorter, the process would end.
    """
    if not is_remote(path):
        return pa.OSFile(path)
    with opened_with_fsspec(path) as (system, inside):
        return pa.PythonFile(system.open(inside, "rb"), "r")


@contextmanager
def open_text(path: str) -> Iterator[tuple[pa.NativeFile, int, int]]:
    """Open a file of text, which is unpacked as it is read if its name says so.

    Yields:
        The text, the bytes of the file, and an estimate of the bytes of the text.
    """
    codec = next((codec for codec, ending in PACKED.items() if path.lower().endswith(ending)), None)
    with open_file(path) as source:
        size = source.size()
        yield (
            (source, size, size)
            if codec is None
            else (pa.CompressedInputStream(source, codec), size, size * _PACKED_TIMES)
        )
