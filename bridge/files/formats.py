"""The formats of files, and the readers of those without groups of rows: JSON and CSV."""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.csv as pv

from akdl.masking import shown
from bridge.exceptions import RowError, SchemaError
from bridge.files import json_text
from bridge.files.columnar import FileReader, OrcReader, ParquetReader, UngroupedReader, arrow_reader, open_file, slices
from bridge.files.file_columns import (
    FileColumn,
    cells_for_flink,
    column_of_field,
    exact_numbers,
    has_other_numbers,
    is_number,
    remedy_of,
)

_CSV_BLOCK_BYTES = 4 << 20  # the longest row
_DOUBTFUL = (pa.int64(), pa.float64(), pa.binary())  # types of text that may be another text
_WRONG_CELL = re.compile(r"In CSV column #(\d+): (?:Row #(\d+): )?")
_LONG_ROW = "straddles two block boundaries"
_PACKED = 10  # times smaller than its text may compressed JSON be
_PACKED_NAMES = {"gzip": ".gz", "bz2": ".bz2", "zstd": ".zst"}


class _Json(UngroupedReader):
    """Objects of one line each."""

    def __init__(self, path: str, columns: Sequence[FileColumn], others: str) -> None:
        self._path, self._others = path, others
        with open_file(path) as source, _unpacked(source, path) as text:
            line, block = next(json_text.blocks(text), (1, b""))
            self.size = source.size()
            self._size = self.size * (1 if text is source else _PACKED)
        self._first = (block.count(b"\n") + 1, max(1, len(block)))
        self._columns, self.schema = columns, pa.schema([(column.name, column.arrow) for column in columns])
        if others == "infer" and block:
            self.schema = json_text.schema_of(line, block, columns)

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        wanted = [column for column in self._columns if self._others == "error" or column.name in columns]
        with open_file(self._path) as source, _unpacked(source, self._path) as text:
            for line, block in json_text.blocks(text):
                table = json_text.rows_of(line, block, wanted, self._others)
                yield from slices(table.select(columns).combine_chunks().to_batches(), rows)


class _Csv(UngroupedReader):
    """Rows below a line with the names. An empty cell is null."""

    def __init__(self, path: str, columns: Sequence[FileColumn], others: str) -> None:
        self._path, self._columns = path, {column.name: column for column in columns}
        types = {name: _in_csv(column) for name, column in self._columns.items()}
        batch = self._first_of(types)
        self.schema = batch.schema
        if len(set(self.schema.names)) < len(self.schema):  # refused where it is opened
            return
        known = {name: column.arrow for name, column in self._columns.items()}
        if others == "infer":
            doubtful = {field.name: pa.string() for field in self.schema if field.type in _DOUBTFUL}
            texts = self._first_of({**doubtful, **types})
            self.schema = pa.schema(
                [field if field.name in known else _exact(field, texts.column(field.name)) for field in self.schema]
            )
        self.schema = pa.schema([(field.name, known.get(field.name, field.type)) for field in self.schema])
        self._first = (max(1, batch.num_rows), max(1, min(self._size, _CSV_BLOCK_BYTES)))

    def batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        wanted, row = [self._columns[name] for name in columns], 2
        with self._reading({column.name: _in_csv(column) for column in wanted}, list(columns)) as reader:
            for batch in reader:
                cells = [
                    cells_for_flink(column, each, row, exact_numbers) if _is_inferred_number(column) else each
                    for column, each in zip(wanted, batch.columns)
                ]
                row += batch.num_rows
                yield from slices([pa.record_batch(cells, list(columns))], rows)

    def _first_of(self, types: dict[str, pa.DataType]) -> pa.RecordBatch:
        with self._reading(types, None) as reader:
            return next(iter(reader), pa.RecordBatch.from_pylist([], reader.schema))

    @contextmanager
    def _reading(self, types: dict[str, pa.DataType], columns: list[str] | None) -> Iterator[pv.CSVStreamingReader]:
        read = pv.ReadOptions(use_threads=False, block_size=_CSV_BLOCK_BYTES)
        convert = pv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True, include_columns=columns)
        with open_file(self._path) as source, _unpacked(source, self._path) as text:
            self.size = source.size()
            self._size = self.size * (1 if text is source else _PACKED)
            try:
                yield pv.open_csv(text, read, pv.ParseOptions(newlines_in_values=True), convert)
            except pa.ArrowInvalid as error:
                if _LONG_ROW in str(error):
                    raise RowError(f"a row has more than {_CSV_BLOCK_BYTES >> 20} MB, or a quote is not closed") from None
                found = _WRONG_CELL.match(str(error))
                if found is None:
                    raise
                name, row = self._names()[int(found[1])], f", row {found[2]}" if found[2] else ""
                raise RowError(f"column {name!r}{row}: {str(error)[found.end() :]}: {remedy_of(error)}") from None

    def _names(self) -> list[str]:
        with open_file(self._path) as source, _unpacked(source, self._path) as text:
            return next(csv.reader(io.StringIO(text.read(_CSV_BLOCK_BYTES).decode("utf-8-sig", "replace"))))


def _is_inferred_number(column: FileColumn) -> bool:
    return column.declared is None and column.arrow in (pa.int64(), pa.float64())


def _in_csv(column: FileColumn) -> pa.DataType:
    """Type that pyarrow reads; it reads some numbers as others, and refuses offsets and further digits of seconds."""
    if is_number(column.arrow):
        return pa.string()
    if pa.types.is_timestamp(column.arrow):
        return pa.timestamp("us", "UTC" if column.sql.startswith("TIMESTAMP_LTZ") else None)
    return pa.time64("us") if pa.types.is_time(column.arrow) else column.arrow


def _exact(field: pa.Field, texts: pa.Array) -> pa.Field:
    """Field of a type that its cells write: "007" is a text, and so are cells that are UTF-8, which pyarrow takes for bytes."""
    if field.type == pa.float64():
        cells_for_flink(column_of_field(field), texts, 2, exact_numbers)
    return field.with_type(texts.type) if field.type == pa.int64() and has_other_numbers(texts) else field


def _unpacked(source: Any, path: str) -> Any:
    for codec, endings in _PACKED_NAMES.items():
        if path.lower().endswith(endings):
            return pa.CompressedInputStream(source, codec)
    return source


_READERS: dict[str, Callable[[str], FileReader]] = {"parquet": ParquetReader, "feather": arrow_reader, "orc": OrcReader}
WITHOUT_GROUPS = ("json", "csv")
FORMATS = (*_READERS, *WITHOUT_GROUPS)


def reader_of(format_: str, path: str, columns: Sequence[FileColumn] = (), others: str = "infer") -> FileReader:
    """Open a file. Text has no types of its own: its cells are read by `columns`.

    Args:
        others: Of other columns, which only text has: "infer" types from the beginning of the file, "ignore" or "error".
    """
    reader: FileReader
    if format_ in WITHOUT_GROUPS:
        reader = (_Csv if format_ == "csv" else _Json)(path, columns, others)
    else:
        reader = _READERS[format_](path)
    twice = [name for name, count in Counter(reader.schema.names).items() if count > 1]
    if twice:
        raise SchemaError(f"it has two columns {twice[0]!r}: rename one")
    return reader


_ENDINGS = {
    "parquet": (".parquet", ".pq", ".parq"),
    "feather": (".feather", ".arrow", ".arrows", ".ipc"),
    "orc": (".orc",),
    "json": (".json", ".jsonl", ".ndjson"),
    "csv": (".csv",),
}


def pattern_instead(path: str, format_: str) -> str:
    """Advice for a file whose name is not one of a format, such as a README in the folder of a table; else an empty text."""
    if not path or format_of(path) == format_:
        return ""
    pattern = f"{shown(os.path.dirname(path))}/*{_ENDINGS[format_][0]}"
    return f"; if it is not part of the table, set filePath to a pattern, such as {pattern}"


def format_of(path: str) -> str | None:
    """Format for the ending of a name."""
    path = path.lower()
    for endings in _PACKED_NAMES.values():
        path = path.removesuffix(endings)
    return next((name for name, endings in _ENDINGS.items() if path.endswith(endings)), None)
