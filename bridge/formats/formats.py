"""The formats of files by name.

A further format is a module with a reader and perhaps a writer, and an entry here, from which
`FileSourceBatchOp` and the check of its parameter `format` are made. A sink, and a source of its
own name, are classes in `operators.data`.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Optional

import pyarrow as pa

from akdl.masking import shown
from bridge.exceptions import SchemaError
from bridge.formats.columnar import (
    PACKED,
    FileReader,
    OrcReader,
    ParquetReader,
    ParquetWriter,
    arrow_reader,
    arrow_writer,
)
from bridge.formats.csv_text import PLAIN_CSV, CsvForm, CsvReader
from bridge.formats.file_columns import FileColumn
from bridge.formats.json_text import JsonReader
from bridge.formats.texts import CsvWriter, JsonWriter

_DECLARE = "declare in schemaStr a column whose cells are not all of the type of the first ones"


@dataclass(frozen=True)
class FileFormat:
    """A format of files.

    Args:
        endings: Endings of names.
        expected: What a file has to be, for errors.
        reader: Opens the file at a path, see `reader_of`.
        writer: Makes a writer of tables, with `write_table` and `close`, for a file; None if no
            sink writes the format.
        has_groups: True if readers can begin at groups of rows, and know how many rows these have.
        batch_bytes: Most bytes of rows that are written at once, which are a row group of Parquet.
    """

    endings: tuple[str, ...]
    expected: str
    reader: Callable[[str, Sequence[FileColumn], str, CsvForm], FileReader]
    writer: Optional[
        Callable[[pa.NativeFile, pa.Schema, CsvForm], pa.ipc.RecordBatchFileWriter]
    ] = None
    has_groups: bool = True
    batch_bytes: int = 512 << 10


FORMATS = {
    "parquet": FileFormat(
        (".parquet", ".pq", ".parq"),
        "a whole Parquet file",
        ParquetReader,
        ParquetWriter,
        batch_bytes=32 << 20,
    ),
    "feather": FileFormat(
        (".feather", ".arrow", ".arrows", ".ipc"),
        "an Arrow IPC file or stream",
        arrow_reader,
        arrow_writer,
    ),
    "orc": FileFormat((".orc",), "a whole ORC file", OrcReader),
    "json": FileFormat(
        (".json", ".jsonl", ".ndjson"),
        f"one object per line; {_DECLARE}",
        JsonReader,
        JsonWriter,
        has_groups=False,
    ),
    "csv": FileFormat(
        (".csv",), f"names in the first line; {_DECLARE}", CsvReader, CsvWriter, has_groups=False
    ),
}


def reader_of(
    format_: str,
    path: str,
    columns: Sequence[FileColumn] = (),
    others: str = "infer",
    form: CsvForm = PLAIN_CSV,
) -> FileReader:
    """Open a file. Text has no types of its own: its cells are read by `columns`.

    Args:
        others: Of other columns, which only text has: "infer" types from the beginning of the file,
            "ignore" or "error".
        form: Form of CSV.
    """
    reader = FORMATS[format_].reader(path, columns, others, form)
    # Columns are found by their names from here on, so the second one would never be read.
    twice = [name for name, count in Counter(reader.schema.names).items() if count > 1]
    if twice:
        raise SchemaError(f"it has two columns {twice[0]!r}: rename one")
    return reader


def pattern_instead(path: str, format_: str) -> str:
    """Advice for a file whose name is not one of a format, such as a README in the folder of a
    table; else an empty text.
    """
    if not path or format_of(path) == format_:
        return ""
    pattern = f"{shown(os.path.dirname(path))}/*{FORMATS[format_].endings[0]}"
    return f"; if it is not part of the table, set filePath to a pattern, such as {pattern}"


def format_of(path: str) -> str | None:
    """Format for the ending of a name."""
    path = path.lower()
    for ending in PACKED.values():
        path = path.removesuffix(ending)
    return next((name for name, format_ in FORMATS.items() if path.endswith(format_.endings)), None)
