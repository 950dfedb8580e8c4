"""Sources of files with names of columns: Parquet, Arrow, ORC, JSON and CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING

from akdl.storage.files import is_remote, local_path
from bridge.schema import Schema, split_watermark
from operators.base.operator import OfFormat
from operators.base.source_operator import SourceOperator
from operators.batch_operator import BatchOperator
from operators.params.accessors import FilesParams, FilesStreamParams, TypedFilesParams, TypedFilesStreamParams
from operators.params.param import WithParams
from operators.stream_operator import StreamOperator

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table


class _Files(OfFormat, WithParams, SourceOperator):
    def _make(self, table_env: StreamTableEnvironment) -> Table:
        from bridge.files.description import describe
        from bridge.flink.file_rows import table_of_files

        values = self._values_of_all()
        scan_s, schema, watermark = values.get("scanInterval"), None, None
        if values["schemaStr"] is not None:
            columns, watermark = split_watermark(values["schemaStr"])
            schema = Schema.parse(columns).all_nullable
        addresses = [each if is_remote(each) else local_path(each) for each in values["filePath"]]
        format_, selected, filter_ = self._format or values["format"], values["selectedCols"], values["filter"]
        files = describe(type(self).__name__, addresses, format_, selected, filter_, schema, scan_s is not None)
        return table_of_files(table_env, files, addresses, scan_s, watermark, isinstance(self, BatchOperator))


class ParquetSourceBatchOp(TypedFilesParams, _Files, BatchOperator, format="parquet"):
    """Parquet files: a file, a folder with its subfolders, a pattern, or a list of them.

    Columns and types come from the first file, and other files have to have the same. Names of subfolders such as
    `day=2024-05-31` become columns. Row groups in which `filter` cannot hold are not read.

    Example:
        trips = ParquetSourceBatchOp(filePath="trips", selectedCols=["id", "fare"], filter="fare > 2.5")

    Raises:
        ConfigurationError: A file, a column or the filter is wrong; raised when the table is first needed.
        SchemaError: A column has no exact type in Flink, or files disagree; the text names the file and the column.
        RowError: A file cannot be read, or a cell does not fit its type; raised by the call that runs the job.
    """


class ParquetSourceStreamOp(TypedFilesStreamParams, _Files, StreamOperator, format="parquet"):
    """Parquet files as a stream, see `ParquetSourceBatchOp`; with `scanInterval`, files that appear later follow.

    A file has to be complete when it appears: write it under a name that begins with `.` or `_`, and rename it.

    Example:
        trips = ParquetSourceStreamOp(filePath="trips", scanInterval=10.0)
    """


class FeatherSourceBatchOp(TypedFilesParams, _Files, BatchOperator, format="feather"):
    """Arrow IPC files (Feather) and streams, see `ParquetSourceBatchOp`.

    Example:
        trips = FeatherSourceBatchOp(filePath="trips.feather")
    """


class FeatherSourceStreamOp(TypedFilesStreamParams, _Files, StreamOperator, format="feather"):
    """Arrow IPC files and streams as a stream, see `ParquetSourceStreamOp`."""


class OrcSourceBatchOp(TypedFilesParams, _Files, BatchOperator, format="orc"):
    """ORC files, see `ParquetSourceBatchOp`.

    Example:
        trips = OrcSourceBatchOp(filePath="trips.orc")
    """


class OrcSourceStreamOp(TypedFilesStreamParams, _Files, StreamOperator, format="orc"):
    """ORC files as a stream, see `ParquetSourceStreamOp`."""


class JsonSourceBatchOp(TypedFilesParams, _Files, BatchOperator, format="json"):
    """JSON files with one object per line, in UTF-8, also as .gz, .bz2 and .zst; see `ParquetSourceBatchOp`.

    Without `schemaStr`, columns and types come from the first MB of the first file, and no file may have other fields. With
    `schemaStr` or `selectedCols`, other fields are left out, and a missing one is null.

    Example:
        trips = JsonSourceBatchOp(filePath="trips.jsonl", schemaStr="id BIGINT, fare DECIMAL(8, 2)")
    """


class JsonSourceStreamOp(TypedFilesStreamParams, _Files, StreamOperator, format="json"):
    """JSON files as a stream, see `JsonSourceBatchOp` and `ParquetSourceStreamOp`."""


class FileSourceBatchOp(FilesParams, _Files, BatchOperator):
    """Files of the format that their names tell, or `format`, see `ParquetSourceBatchOp`.

    CSV files have a line of names first, and are read by pyarrow: without `schemaStr`, types come from the first 4 MB of the
    first file. An empty cell is null. `CsvSourceBatchOp` has other delimiters, and reads files without names.

    Example:
        trips = FileSourceBatchOp(filePath="trips", format="parquet")
    """


class FileSourceStreamOp(FilesStreamParams, _Files, StreamOperator):
    """Files as a stream, see `FileSourceBatchOp` and `ParquetSourceStreamOp`."""
