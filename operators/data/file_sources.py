"""Sources of files with names of columns: Parquet, Arrow, ORC, JSON and CSV."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from akdl.masking import shown
from akdl.storage.files import place_of
from akdl.storage.limits import TABLE, LimitError
from akdl.wire.column_type import ColumnType, Kind
from bridge.exceptions import refused_at
from bridge.formats.csv_text import CsvForm
from bridge.formats.file_columns import arrow_schema_of
from bridge.schema import Schema, quoted, split_watermark
from operators.base.job import session_zone
from operators.base.source_operator import SourceOperator, fetched
from operators.batch_operator import BatchOperator
from operators.flink.memory_table import memory_table
from operators.params.accessors import (
    CsvParams,
    FilesParams,
    FilesStreamParams,
    TypedFilesParams,
    TypedFilesStreamParams,
)
from operators.params.param import WithParams, fields_of
from operators.stream_operator import StreamOperator

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table

    from bridge.files.reading import FileTable


class _Files(WithParams, SourceOperator):
    # None where the names of the files, or the parameter `format`, say it.
    _format: str | None = None

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        from bridge.files.description import describe
        from bridge.flink.file_rows import table_of_files

        values = self._values_of_all()
        scan_s = values.get("scanInterval")
        schema = watermark = None
        if values["schemaStr"] is not None:
            columns, watermark = split_watermark(values["schemaStr"])
            # A cell of a file may be empty whatever the schema says, so NOT NULL is not kept: Flink
            # turns null in such a column into -1 or an empty text.
            schema = Schema.parse(columns).all_nullable
        files = describe(
            self._name,
            [place_of(each) for each in values["filePath"]],
            self._format or values["format"],
            values["selectedCols"],
            values["filter"],
            schema,
            scan_s is not None,
            zone=partial(session_zone, None, table_env),
        )
        return table_of_files(table_env, files, scan_s, watermark, isinstance(self, BatchOperator))


class _CsvFiles(WithParams, SourceOperator):
    def _make(self, table_env: StreamTableEnvironment) -> Table:
        from bridge.files.description import describe
        from bridge.flink.file_rows import table_of_files
        from bridge.flink.time_attributes import with_event_time

        values = self._values_of_all()
        name = self._name
        address = values["filePath"]
        columns, watermark = split_watermark(values["schemaStr"])
        schema = Schema.parse(columns).all_nullable
        # A text has a local time. SQL turns it into an instant with the rules of the session's time
        # zone, so the file is first read with TIMESTAMP in place of TIMESTAMP_LTZ.
        local = Schema(tuple(replace(column, type=_local(column.type)) for column in schema))
        others = {"null_literals": tuple(values["nullLiteral"] or ()), "names": tuple(schema.names)}
        form = CsvForm(**{**fields_of(CsvForm, values), **others})
        # The hosts of a job may not reach such an address, so this program reads the file, and its
        # rows travel with the job.
        if address.startswith(("http://", "https://")):
            with fetched(name, address) as path:
                # All rows of such a file pass through this program's memory, so its size is
                # limited.
                with refused_at(f"{name}: {shown(address)}", LimitError):
                    TABLE.check(os.path.getsize(path))
                files = describe(name, [path], "csv", schema=local, csv=form)
                table = memory_table(table_env, local, _all_rows(files, path), name)
        else:
            files = describe(name, [place_of(address)], "csv", schema=local, csv=form)
            # Without instants no cast is needed. The table then keeps its reference to the files,
            # so that a script or predictor behind it can read them itself.
            if local == schema:
                return table_of_files(table_env, files, watermark=watermark)
            table = table_of_files(table_env, files)
        cells = ", ".join(
            f"CAST({quoted(c.name)} AS {c.type.cast_sql}) AS {quoted(c.name)}" for c in schema
        )
        return with_event_time(
            table_env, table_env.sql_query(f"SELECT {cells} FROM {table}"), watermark
        )


def _local(type_: ColumnType) -> ColumnType:
    return replace(type_, kind=Kind.TIMESTAMP) if type_.kind is Kind.TIMESTAMP_LTZ else type_


def _all_rows(files: FileTable, path: str) -> pa.RecordBatchReader:
    from bridge.files.reading import FileParts

    parts = FileParts(files)
    # The batches are made as they are taken, so the file is never in memory as a whole.
    batches = (batch for part, _ in parts.parts_of(path) for batch in parts.batches_of(part))
    return pa.RecordBatchReader.from_batches(arrow_schema_of(files.columns), batches)


class CsvSourceBatchOp(CsvParams, _CsvFiles, BatchOperator):
    """A CSV file, a folder or a pattern, in UTF-8, also as .gz, .bz2 and .zst; an empty cell is
    null.

    Each row has the columns of `schemaStr`, in their order. A file at an http address is read by
    this program, and its rows travel with the job.

    Example:
        trips = CsvSourceBatchOp(
            filePath="trips.csv",
            ignoreFirstLine=True,
            schemaStr="id BIGINT, `start time` TIMESTAMP(3)",
        )

    Raises:
        ConfigurationError: A parameter is wrong, or the file does not exist.
        RowError: A cell does not fit the type of its column, or a row has too few or too many
            cells; the call that runs the job raises it, with file and line.
    """


class CsvSourceStreamOp(CsvParams, _CsvFiles, StreamOperator):
    """A CSV file, a folder or a pattern as a bounded stream, see `CsvSourceBatchOp`."""


class ParquetSourceBatchOp(TypedFilesParams, _Files, BatchOperator):
    """Parquet files: a file, a folder with its subfolders, a pattern, or a list of them.

    Columns and types come from the first file, and other files have to have the same. Names of
    subfolders such as `day=2024-05-31` become columns. Row groups in which `filter` cannot hold are
    not read.

    Example:
        trips = ParquetSourceBatchOp(
            filePath="trips", selectedCols=["id", "fare"], filter="fare > 2.5"
        )

    Raises:
        ConfigurationError: A file, a column or the filter is wrong; raised when the table is first
            needed.
        SchemaError: A column has no exact type in Flink, or files disagree; the text names the file
            and the column.
        RowError: A file cannot be read, or a cell does not fit its type; raised by the call that
            runs the job.
    """

    _format = "parquet"


class ParquetSourceStreamOp(TypedFilesStreamParams, _Files, StreamOperator):
    """Parquet files as a stream, see `ParquetSourceBatchOp`; with `scanInterval`, files that appear
    later follow.

    A file has to be complete when it appears: write it under a name that begins with `.` or `_`,
    and rename it.

    Example:
        trips = ParquetSourceStreamOp(filePath="trips", scanInterval=10.0)
    """

    _format = "parquet"


class FeatherSourceBatchOp(TypedFilesParams, _Files, BatchOperator):
    """Arrow IPC files (Feather) and streams, see `ParquetSourceBatchOp`.

    Example:
        trips = FeatherSourceBatchOp(filePath="trips.feather")
    """

    _format = "feather"


class FeatherSourceStreamOp(TypedFilesStreamParams, _Files, StreamOperator):
    """Arrow IPC files and streams as a stream, see `ParquetSourceStreamOp`."""

    _format = "feather"


class OrcSourceBatchOp(TypedFilesParams, _Files, BatchOperator):
    """ORC files, see `ParquetSourceBatchOp`.

    Example:
        trips = OrcSourceBatchOp(filePath="trips.orc")
    """

    _format = "orc"


class OrcSourceStreamOp(TypedFilesStreamParams, _Files, StreamOperator):
    """ORC files as a stream, see `ParquetSourceStreamOp`."""

    _format = "orc"


class JsonSourceBatchOp(TypedFilesParams, _Files, BatchOperator):
    """JSON files with one object per line, in UTF-8, also as .gz, .bz2 and .zst; see
    `ParquetSourceBatchOp`.

    Without `schemaStr`, columns and types come from the first MB of the first file, and no file may
    have other fields. With `schemaStr` or `selectedCols`, other fields are left out, and a missing
    one is null.

    Example:
        trips = JsonSourceBatchOp(filePath="trips.jsonl", schemaStr="id BIGINT, fare DECIMAL(8, 2)")
    """

    _format = "json"


class JsonSourceStreamOp(TypedFilesStreamParams, _Files, StreamOperator):
    """JSON files as a stream, see `JsonSourceBatchOp` and `ParquetSourceStreamOp`."""

    _format = "json"


class FileSourceBatchOp(FilesParams, _Files, BatchOperator):
    """Files of the format that their names tell, or `format`, see `ParquetSourceBatchOp`.

    CSV files have a line of names first, and are read by pyarrow: without `schemaStr`, types come
    from the first 4 MB of the first file, where `nan`, `inf` and `+5` are of DOUBLE. Columns in
    `schemaStr` are read by the same rules as in `CsvSourceBatchOp`, which has other delimiters, and
    reads files without names.

    Example:
        trips = FileSourceBatchOp(filePath="trips", format="parquet")
    """


class FileSourceStreamOp(FilesStreamParams, _Files, StreamOperator):
    """Files as a stream, see `FileSourceBatchOp` and `ParquetSourceStreamOp`."""
