"""File formats: the schema of a file, its groups of rows, and the batches of a group.

Readers use one thread each, since Flink runs one per slot, and hold little more than the batches that they yield.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.json as pj
import pyarrow.orc as po
import pyarrow.parquet as pq

from akdl.storage.files import is_remote, opened_with_fsspec
from bridge.files.parts import TO_THE_END, WHOLE

BATCH_BYTES = 1 << 20
MOST_ROWS = 1 << 16  # of a batch: encoded sizes say little of repeated text
_BLOCK_BYTES = 1 << 20  # of JSON
_CSV_BLOCK_BYTES = 4 << 20  # the longest row
_PACKED = 10  # times smaller than its text may compressed JSON be
_PACKED_NAMES = {"gzip": ".gz", "bz2": ".bz2", "zstd": ".zst"}


class RowGroup(NamedTuple):
    """A group of rows and an estimate of its bytes. Where `rows` are unknown, the first of them are a sample."""

    number: int
    rows: int
    size: int
    sample_rows: int = 0
    sample_size: int = 0


class FileReader:
    """An open file."""

    schema: pa.Schema

    def groups(self, columns: Sequence[str]) -> Iterator[RowGroup]:
        """Yield the groups, with estimates for some columns."""
        raise NotImplementedError

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a group in batches of at most `rows`, where the format permits it."""
        raise NotImplementedError


class ParquetReader(FileReader):
    """A Parquet file."""

    def __init__(self, path: str) -> None:
        # Local columns are read in small pieces; from a storage, all columns of a row group with few calls.
        remote = is_remote(path)
        self.file = pq.ParquetFile(open_file(path), pre_buffer=remote, buffer_size=0 if remote else 1 << 16)
        self.schema = self.file.schema_arrow

    def groups(self, columns: Sequence[str]) -> Iterator[RowGroup]:
        metadata, wanted = self.file.metadata, set(columns)
        paths = [metadata.schema.column(place).path for place in range(metadata.num_columns)]
        places = [place for place, path in enumerate(paths) if path in wanted or path.partition(".")[0] in wanted]
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            yield RowGroup(number, group.num_rows, sum(group.column(place).total_uncompressed_size for place in places))

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        batches: Iterator[pa.RecordBatch] = self.file.iter_batches(rows, [group], list(columns), use_threads=False)
        return batches


class _ArrowFile(FileReader):
    def __init__(self, path: str) -> None:
        self._source = open_file(path)
        self.schema = self._reader(None).schema
        self._size = self._source.size()

    def _reader(self, columns: Sequence[str] | None) -> Any:
        fields = None if columns is None else [self.schema.get_field_index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        return pa.ipc.open_file(self._source, options=options)

    def groups(self, columns: Sequence[str]) -> Iterator[RowGroup]:
        reader = self._reader(self.schema.names[:1])
        for number in range(reader.num_record_batches):
            yield RowGroup(number, reader.get_batch(number).num_rows, self._size // reader.num_record_batches)

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        yield from _slices(self._reader(columns).get_batch(group), rows)


class _Whole(FileReader):
    """A file without groups, which is one: `_size` estimates its bytes, and `_first` are the rows and bytes of a sample."""

    _path: str
    _size: int
    _first: tuple[int, int]

    def groups(self, columns: Sequence[str]) -> Iterator[RowGroup]:
        yield RowGroup(WHOLE, TO_THE_END, self._size, *self._first)


class _ArrowStream(_Whole):
    def __init__(self, path: str) -> None:
        self._path = path
        with open_file(path) as source:
            reader = pa.ipc.open_stream(source)
            self.schema = reader.schema
            first, self._size = next(iter(reader), None), 2 * source.size()
        self._first = (1, 1) if first is None else (max(1, first.num_rows), max(1, first.nbytes))

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        fields = [self.schema.get_field_index(name) for name in columns]
        with open_file(self._path) as source:
            options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
            for batch in pa.ipc.open_stream(source, options=options):
                yield from _slices(batch, rows)


def _arrow(path: str) -> FileReader:
    with open_file(path) as source:
        is_file = source.read(6) == b"ARROW1"
    return _ArrowFile(path) if is_file else _ArrowStream(path)


class _Orc(FileReader):
    def __init__(self, path: str) -> None:
        self._file = po.ORCFile(open_file(path))
        self.schema = self._file.schema

    def groups(self, columns: Sequence[str]) -> Iterator[RowGroup]:
        stripes, first = self._file.nstripes, self.schema.names[:1]
        for number in range(stripes):
            rows = self._file.nrows if stripes == 1 else self._file.read_stripe(number, first).num_rows
            yield RowGroup(number, rows, self._file.content_length // stripes)

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        yield from _slices(self._file.read_stripe(group, list(columns)), rows)


class _Json(_Whole):
    """Objects of one line each; without a schema, that of the first MB."""

    def __init__(self, path: str, schema: pa.Schema | None, all_columns: bool) -> None:
        self._path, self._all_columns = path, all_columns
        with open_file(path) as source, _unpacked(source, path) as text:
            block = next(_blocks(text), b"")
            self._size = source.size() * (1 if text is source else _PACKED)
        self._first = (block.count(b"\n") + 1, max(1, len(block)))
        if schema is not None:
            self.schema = pa.schema([_json_field(field) for field in schema])
        else:
            self.schema = _parsed(block, None, "infer").schema if block else pa.schema([])

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        wanted = pa.schema([self.schema.field(name) for name in columns])
        with open_file(self._path) as source, _unpacked(source, self._path) as text:
            for block in _blocks(text):
                table = _parsed(block, wanted, "error" if self._all_columns else "ignore")
                for batch in table.select(columns).combine_chunks().to_batches():
                    yield from _slices(batch, rows)


class _Csv(_Whole):
    """Rows below a line with the names; without a schema, the first 4 MB decide their types. An empty cell is null."""

    def __init__(self, path: str, schema: pa.Schema | None) -> None:
        self._path, self._types = path, {} if schema is None else dict(zip(schema.names, schema.types))
        with open_file(path) as source, _unpacked(source, path) as text:
            reader = self._reader(text, None)
            self.schema, batch = reader.schema, next(iter(reader), None)
            self._size = source.size() * (1 if text is source else _PACKED)
        rows = 0 if batch is None else batch.num_rows
        self._first = (max(1, rows), max(1, min(self._size, _CSV_BLOCK_BYTES)))

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        with open_file(self._path) as source, _unpacked(source, self._path) as text:
            for batch in self._reader(text, list(columns)):
                yield from _slices(batch, rows)

    def _reader(self, text: pa.NativeFile, columns: list[str] | None) -> pv.CSVStreamingReader:
        read = pv.ReadOptions(use_threads=False, block_size=_CSV_BLOCK_BYTES)
        convert = pv.ConvertOptions(
            column_types=self._types, null_values=[""], strings_can_be_null=True, include_columns=columns
        )
        return pv.open_csv(text, read, pv.ParseOptions(newlines_in_values=True), convert)


def _json_field(field: pa.Field) -> pa.Field:
    """Field that pyarrow reads from JSON; it reads no dates and times."""
    return field.with_type(pa.string()) if pa.types.is_date(field.type) or pa.types.is_time(field.type) else field


def _blocks(text: Any) -> Iterator[bytes]:
    """Yield lines of about 1 MB."""
    rest = b""
    while data := text.read(_BLOCK_BYTES):
        lines, _, rest = (rest + data).rpartition(b"\n")
        if lines.strip():
            yield lines
    if rest.strip():
        yield rest


def _parsed(block: bytes, schema: pa.Schema | None, unexpected: str) -> pa.Table:
    options = pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected)
    return pj.read_json(io.BytesIO(block), pj.ReadOptions(False, len(block) + 1), options)


def _unpacked(source: Any, path: str) -> Any:
    for codec, endings in _PACKED_NAMES.items():
        if path.lower().endswith(endings):
            return pa.CompressedInputStream(source, codec)
    return source


def _slices(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def open_file(path: str) -> Any:
    """File of pyarrow at a path or an address. A map of memory would end the process where a file becomes shorter."""
    if not is_remote(path):
        return pa.OSFile(path)
    with opened_with_fsspec(path) as (system, inside):
        return pa.PythonFile(system.open(inside, "rb"), "r")


_READERS: dict[str, Callable[[str], FileReader]] = {"parquet": ParquetReader, "feather": _arrow, "orc": _Orc}
WITHOUT_GROUPS = ("json", "csv")
FORMATS = (*_READERS, *WITHOUT_GROUPS)


def reader_of(format_: str, path: str, schema: pa.Schema | None = None, all_columns: bool = False) -> FileReader:
    """Open a file. Text has no types of its own: its cells are read by `schema`, or by the beginning of the file."""
    if format_ == "csv":
        return _Csv(path, schema)
    return _Json(path, schema, all_columns) if format_ == "json" else _READERS[format_](path)


_ENDINGS = {
    "parquet": (".parquet", ".pq", ".parq"),
    "feather": (".feather", ".arrow", ".arrows", ".ipc"),
    "orc": (".orc",),
    "json": (".json", ".jsonl", ".ndjson"),
    "csv": (".csv",),
}


def format_of(path: str) -> str | None:
    """Format for the ending of a name."""
    path = path.lower()
    for endings in _PACKED_NAMES.values():
        path = path.removesuffix(endings)
    return next((name for name, endings in _ENDINGS.items() if path.endswith(endings)), None)
