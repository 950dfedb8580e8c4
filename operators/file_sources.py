"""Sources of files that Flink needs help with: .ak files, which this program reads, and Parquet files, which need a jar."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from akdl.wire.column_type import Kind, parse_type
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema, quoted, split_watermark
from operators.alink.ak_cells import MOST_DIGITS, digits_of
from operators.alink.ak_file import read_rows, read_schema
from operators.base.job import session_zone
from operators.base.source_operator import SourceOperator
from operators.batch_operator import BatchOperator
from operators.errors.missing_jars import require_format
from operators.params.accessors import AkSourceParams, ParquetParams
from operators.prepare.fetched_file import fetched, is_name_of_flink
from operators.stream_operator import StreamOperator
from operators.tables.memory_table import memory_table

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table

_numbers = itertools.count()


class _AkSource(AkSourceParams, SourceOperator):
    """An .ak file, or a folder of them: a path, http(s), or what fsspec reaches. This program reads it whole."""

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        values = self._values_of_all()
        with fetched(type(self).__name__, "filePath", values["filePath"]) as path:
            files = sorted(os.path.join(path, name) for name in os.listdir(path)) if os.path.isdir(path) else [path]
            if not files:
                raise ConfigurationError(f"{type(self).__name__}: parameter 'filePath': the folder {path} is empty")
            schema = read_schema(files[0])
            for file in files[1:]:
                if read_schema(file) != schema:
                    raise ConfigurationError(
                        f"{type(self).__name__}: parameter 'filePath': {file} has other columns than {files[0]}: a folder "
                        "holds one table"
                    )
            zone = session_zone(values["timeZone"], table_env)
            rows = [row for file in files for row in read_rows(file, zone)]
            schema = _with_digits(f"{type(self).__name__}: {path}", schema, rows)
        self._fix()
        return table_of_rows(table_env, schema, rows, type(self).__name__)


class AkSourceBatchOp(_AkSource, BatchOperator):
    """An .ak file, or a folder of them: a path, http(s), or what fsspec reaches. This program reads it whole.

    Example:
        predict.linkFrom(AkSourceBatchOp(filePath="model.ak"), data)

    Raises:
        ConfigurationError: There is no such file, or it is no whole .ak file; raised when the table is first needed.
    """


class AkSourceStreamOp(_AkSource, StreamOperator):
    """An .ak file, or a folder of them, as a stream with an end, see `AkSourceBatchOp`."""


class _ParquetSource(ParquetParams, SourceOperator):
    """Parquet files at any address that Flink reads, by Flink's own format."""

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        from bridge.flink.time_attributes import with_event_time

        values = self._values_of_all()
        require_format(type(self).__name__, "parquet")
        path = values["filePath"] if "://" in values["filePath"] else os.path.abspath(values["filePath"])
        if not is_name_of_flink(path):
            raise ConfigurationError(
                f"{type(self).__name__}: parameter 'filePath': {path}: Flink takes a backslash for a slash, and a colon in a "
                "file's name for an address; rename it"
            )
        schema, watermark = split_watermark(values["schemaStr"])
        columns = ", ".join(f"{quoted(c.name)} {c.type.sql}" for c in Schema.parse(schema).all_nullable)
        name, escaped = f"akdl_parquet_{next(_numbers)}", path.replace("'", "''")
        options = f"'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{escaped}'"
        table_env.execute_sql(f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({options})")
        self._fix()
        return with_event_time(table_env, table_env.from_path(name), watermark)


class ParquetSourceBatchOp(_ParquetSource, BatchOperator):
    """Parquet files at any address that Flink reads, by Flink's own format.

    Example:
        trips = ParquetSourceBatchOp(filePath="trips", schemaStr="id BIGINT, fare DOUBLE")

    Raises:
        ConfigurationError: Flink's jar for Parquet is missing; the error names it and its place.
    """


class ParquetSourceStreamOp(_ParquetSource, StreamOperator):
    """Parquet files as a stream with an end, see `ParquetSourceBatchOp`."""


def _with_digits(where: str, schema: Schema, rows: list[tuple[Any, ...]]) -> Schema:
    """Return the columns with decimals of a scale that holds all cells: the largest up to 18, or what the cells need.

    Raises:
        ConfigurationError: The cells of a column need more than 38 digits.
    """
    columns = list(schema)
    for place, column in enumerate(columns):
        if column.type.kind is Kind.DECIMAL:
            whole, behind = digits_of(row[place] for row in rows if row[place] is not None)
            if whole + behind > MOST_DIGITS:
                raise ConfigurationError(
                    f"{where}: the column {column.name!r} has numbers of {whole} digits before the point and {behind} behind "
                    f"it; at most {MOST_DIGITS} in all can be read: let Alink write them as text"
                )
            scale = max(behind, min(18, MOST_DIGITS - whole))
            columns[place] = replace(column, type=parse_type(f"DECIMAL({MOST_DIGITS}, {scale})"))
    return Schema(tuple(columns))


def table_of_rows(table_env: StreamTableEnvironment, schema: Schema, rows: list[tuple[Any, ...]], where: str) -> Table:
    """Return rows as a table. As a DataFrame they travel to Flink by columns, which is far faster."""
    cells = zip(*rows) if rows else ([] for _ in schema)
    frame = pd.DataFrame({name: pd.Series(list(column), dtype=object) for name, column in zip(schema.names, cells)})
    return memory_table(table_env, schema, frame, where)
