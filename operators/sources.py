"""Sources over Flink's own connectors: CSV files and random numbers."""

from __future__ import annotations

import itertools
import mmap
import os
from collections.abc import Iterator
from contextlib import nullcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from akdl.masking import shown
from akdl.wire.column_type import INTEGERS, Kind
from bridge.exceptions import ConfigurationError
from bridge.schema import Column, Schema, quoted, split_watermark
from operators.base_operator import Source, execution_environment_of
from operators.batch_operator import BatchOperator
from operators.csv_faults import CsvFiles, remember
from operators.csv_rows import has_blank_line, not_utf8, read_csv
from operators.file_sources import table_of_rows
from operators.params.accessors import CsvParams, RandomStreamParams, RandomTableParams
from operators.prepare.fetched_file import fetched
from operators.random_columns import expression, read_distributions
from operators.stream_operator import StreamOperator

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table

_WITH_TIME = (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ)
_numbers = itertools.count()


class _CsvSource(CsvParams, Source):
    """A CSV file or a folder of them; an empty cell is null.

    Flink reads them. This program reads a file itself, and its rows travel with the job, if the file comes by http, has blank
    lines or another row delimiter, or is to be read leniently.
    """

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        from bridge.flink.time_attributes import with_event_time

        values = self._values_of_all()
        name, path = type(self).__name__, values["filePath"]
        columns, watermark = split_watermark(values["schemaStr"])
        schema = Schema.parse(columns).all_nullable  # a cell may be empty, and Flink would make a number of it
        if "://" not in path:
            path = os.path.abspath(path)
            if not os.path.exists(path):
                raise ConfigurationError(f"{name}: parameter 'filePath': there is no file {path}")
        if _needs_help(path, values):
            with fetched(name, "filePath", path) as found:
                rows = [row for file in _files(found) for row in _rows(f"{name}: {shown(path)}", file, schema, values)]
            table = table_of_rows(table_env, schema, rows, name)
        elif values["ignoreFirstLine"] or _only_casts_can_read(schema):
            table = self._by_casts(table_env, path, schema)
        else:
            options = {
                "connector": "filesystem",
                "path": path,
                "format": "csv",
                "csv.field-delimiter": values["fieldDelimiter"],
                "csv.quote-character": values["quoteChar"],
                "csv.null-literal": "",
            }
            table = _table_of(table_env, [f"{quoted(c.name)} {c.type.sql}" for c in schema], options)
        if os.path.exists(path) and not _needs_help(path, values):
            form = values["fieldDelimiter"], values["quoteChar"], values["ignoreFirstLine"]
            remember(CsvFiles(name, tuple(_files(path)), schema, *form))
        self._fix()
        return with_event_time(table_env, table, watermark)

    def _by_casts(self, table_env: StreamTableEnvironment, path: str, schema: Schema) -> Table:
        """Read strings with the reader below Flink's csv format, and cast them.

        The format itself cannot leave out a line, makes false of any string that is not "true", and takes no "T" in a time.
        """
        from pyflink.common import WatermarkStrategy
        from pyflink.datastream.connectors.file_system import FileSource
        from pyflink.datastream.formats.csv import CsvReaderFormat, CsvSchema

        for column in schema:
            if column.type.is_array or column.type.kind is Kind.BYTES:
                raise ConfigurationError(
                    f"{type(self).__name__}: ignoreFirstLine cannot be used with the column {column.name!r} of type "
                    f"{column.type.sql}: read it as STRING, or remove the line from the file"
                )
        reader = CsvSchema.builder()
        for column in schema:
            reader.add_string_column(column.name)
        reader.set_column_separator(self.getFieldDelimiter()).set_quote_char(self.getQuoteChar()).set_null_value("")
        if self.getIgnoreFirstLine():
            reader.set_skip_first_data_row()
        texts = CsvReaderFormat.for_schema(reader.build())
        source = FileSource.for_record_stream_format(texts, path).build()
        stream_env, watermarks = execution_environment_of(table_env), WatermarkStrategy.no_watermarks()
        stream = stream_env.from_source(source, watermarks, f"CSV {shown(path)}")
        view = f"akdl_csv_{next(_numbers)}"
        table_env.create_temporary_view(view, table_env.from_data_stream(stream))
        cells = ", ".join(f"{_cast(c)} AS {quoted(c.name)}" for c in schema)
        return table_env.sql_query(f"SELECT {cells} FROM {view}")


def _only_casts_can_read(schema: Schema) -> bool:
    kinds = {Kind.BYTES if column.type.is_array else column.type.kind for column in schema}
    return not kinds.isdisjoint({Kind.BOOLEAN, *_WITH_TIME}) and Kind.BYTES not in kinds


def _cast(column: Column) -> str:
    """Return the SQL that makes a value of a string. A CAST alone makes 3 of "3.7" and 0 of a DECIMAL that is no number."""
    name, sql = quoted(column.name), column.type.cast_sql
    if column.type.kind in INTEGERS:
        return f"CAST(REPLACE({name}, '.', '?') AS {sql})"
    if column.type.kind in _WITH_TIME:
        return f"CAST(REPLACE({name}, 'T', ' ') AS {sql})"
    if column.type.kind is Kind.DECIMAL:
        return f"CASE WHEN CAST({name} AS DOUBLE) IS NOT NULL THEN CAST({name} AS {sql}) END"
    return f"CAST({name} AS {sql})"


class CsvSourceBatchOp(_CsvSource, BatchOperator):
    """A CSV file or a folder of them; an empty cell is null.

    Flink reads them. This program reads a file itself, and its rows travel with the job, if the file comes by http, has blank
    lines or another row delimiter, or is to be read leniently. Files are UTF-8.

    Example:
        trips = CsvSourceBatchOp(filePath="trips.csv", ignoreFirstLine=True, schemaStr="id BIGINT, `start time` TIMESTAMP(3)")

    Raises:
        ConfigurationError: A parameter is wrong, or there is no such file. The call that runs the job names file and line of a
            cell that does not fit its column's type.
    """


class CsvSourceStreamOp(_CsvSource, StreamOperator):
    """A CSV file or a folder of them as a stream with an end, see `CsvSourceBatchOp`."""


def _needs_help(path: str, values: dict[str, Any]) -> bool:
    """Whether this program has to read files itself."""
    if path.startswith(("http://", "https://")) or values["lenient"] or values["rowDelimiter"] != "\n":
        return True
    if "://" in path or not values["skipBlankLine"]:
        return False
    return any(_has_blank_line(file) for file in _files(path))


def _files(path: str) -> list[str]:
    return sorted(os.path.join(path, name) for name in os.listdir(path)) if os.path.isdir(path) else [path]


def _has_blank_line(path: str) -> bool:
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.path.getsize(path) else (nullcontext(b"")) as data,
    ):
        return has_blank_line(data)


def _rows(where: str, file: str, schema: Schema, values: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
    with open(file, encoding="utf-8-sig", newline="") as opened:
        try:
            text = opened.read()
        except UnicodeDecodeError as error:
            raise not_utf8(where, error) from None
    return read_csv(
        where,
        text,
        schema,
        field_delimiter=values["fieldDelimiter"],
        quote_char=values["quoteChar"],
        row_delimiter=values["rowDelimiter"],
        ignore_first_line=values["ignoreFirstLine"],
        skip_blank_line=values["skipBlankLine"],
        lenient=values["lenient"],
    )


class RandomTableSourceBatchOp(RandomTableParams, Source, BatchOperator):
    """A table of random numbers, DOUBLE columns, for trying things out. Each run draws new numbers.

    Example:
        points = RandomTableSourceBatchOp(numRows=100, numCols=2, outputCols=["x", "y"], outputColConfs="x:gauss(0,1)")
    """

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        values = self._values_of_all()
        table = _random_table(table_env, type(self).__name__, values, values["numRows"], 0, None)
        self._fix()
        return table


class RandomTableSourceStreamOp(RandomStreamParams, Source, StreamOperator):
    """A stream of `maxRows` rows of random numbers, DOUBLE columns, and their number, from 1. Each run draws new numbers.

    Flink's generator keeps the numbers of all rows to come in memory, about 30 bytes each.

    Example:
        points = RandomTableSourceStreamOp(maxRows=1000, numCols=2, timePerSample=0.01)
    """

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        values = self._values_of_all()
        name, seconds, zones = type(self).__name__, values["timePerSample"], values["timeZones"]
        if seconds is None and zones is not None:
            seconds = sum(zones) / 2
        table = _random_table(table_env, name, values, values["maxRows"], 1, Fraction(seconds) if seconds else None)
        self._fix()
        return table


def _random_table(
    table_env: StreamTableEnvironment, operator: str, values: dict[str, Any], rows: int, first: int, seconds: Fraction | None
) -> Table:
    """Return rows with ids from `first`, one each so many seconds, or as fast as they are taken."""
    names = values["outputCols"] or [f"col{i}" for i in range(values["numCols"])]
    if len(names) != values["numCols"]:
        raise ConfigurationError(f"{operator}: outputCols has {len(names)} names, numCols is {values['numCols']}")
    if values["idCol"] in names:
        raise ConfigurationError(f"{operator}: idCol {values['idCol']!r} is a name in outputCols too")
    distributions = read_distributions(values["outputColConfs"] or "", names)
    draws: list[str] = []
    columns = [f"{expression(distributions.get(name), draws)} AS {quoted(name)}" for name in names]
    # Flink's generator counts whole rows per second: slower ones leave rows out.
    rate = (1 / seconds).limit_denominator(1000) if seconds else Fraction(1_000_000_000)
    per_second, every = max(rate.numerator, 1), rate.denominator
    if values["idCol"] is not None:
        columns.insert(0, f"row_id / {every} + {first} AS {quoted(values['idCol'])}")
    generated = max(rows, 1) * every
    options = {
        "connector": "datagen",
        "rows-per-second": str(per_second),
        "number-of-rows": str(generated),
        "fields.row_id.kind": "sequence",
        "fields.row_id.start": "0",
        "fields.row_id.end": str(generated - 1),
    }
    if seconds:
        options["scan.parallelism"] = "1"  # subtasks share the rate, and a subtask with rate 0 would wait indefinitely
    for draw in draws:
        options[f"fields.{draw}.min"], options[f"fields.{draw}.max"] = "0", "1"
    drawn = _table_of(table_env, ["row_id BIGINT", *(f"{draw} DOUBLE" for draw in draws)], options)
    view = f"akdl_random_{next(_numbers)}"
    table_env.create_temporary_view(view, drawn)
    kept = f"row_id < {rows * every}" + (f" AND MOD(row_id, {every}) = 0" if every > 1 else "")
    return table_env.sql_query(f"SELECT {', '.join(columns)} FROM {view} WHERE {kept}")


def _table_of(table_env: StreamTableEnvironment, columns: list[str], options: dict[str, str]) -> Table:
    name = f"akdl_source_{next(_numbers)}"
    escaped = {key: value.replace("'", "''") for key, value in options.items()}
    settings = ", ".join(f"'{key}' = '{value}'" for key, value in escaped.items())
    table_env.execute_sql(f"CREATE TEMPORARY TABLE {name} ({', '.join(columns)}) WITH ({settings})")
    return table_env.from_path(name)
