"""Sources over Flink's own connectors: CSV files and random numbers."""

from __future__ import annotations

import itertools
import mmap
import os
from contextlib import nullcontext
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from akdl.masking import shown
from akdl.storage.limits import TABLE, LimitError
from akdl.wire.column_type import parse_type
from bridge.exceptions import ConfigurationError
from bridge.schema import Column, Schema, quoted, split_watermark
from operators.alink.random_columns import expression, read_distributions
from operators.base.job import execution_environment_of
from operators.base.source_operator import SourceOperator
from operators.batch_operator import BatchOperator
from operators.errors.csv_faults import CsvFiles, remember
from operators.file_sources import table_of_rows
from operators.params.accessors import CsvParams, RandomStreamParams, RandomTableParams
from operators.prepare.fetched_file import fetched, is_name_of_flink
from operators.stream_operator import StreamOperator
from operators.tables.csv_cells import cannot_be_text, cell_sql
from operators.tables.csv_rows import LINE_ENDS, CsvForm, has_blank_line, not_utf8, read_csv

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table

_numbers = itertools.count()


class _CsvSource(CsvParams, SourceOperator):
    """A CSV file or a folder of them; an empty cell is null.

    Flink reads them. This program reads a file itself, and its rows travel with the job, if the file comes by http, has blank
    lines or another row delimiter, or is to be read leniently.
    """

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        from bridge.flink.time_attributes import with_event_time

        values = self._values_of_all()
        name, path, lenient = type(self).__name__, values["filePath"], values["lenient"]
        columns, watermark = split_watermark(values["schemaStr"])
        schema = Schema.parse(columns).all_nullable  # a cell may be empty, and Flink would make a number of it
        if "://" not in path:
            path = os.path.abspath(path)
            if not os.path.exists(path):
                raise ConfigurationError(f"{name}: parameter 'filePath': there is no file {path}")
        texts = Schema(tuple(c if cannot_be_text(c.type) else Column(c.name, parse_type("STRING")) for c in schema))
        form = _form(values)
        if _needs_help(path, values):
            with fetched(name, "filePath", path) as found:
                rows: list[tuple[Any, ...]] = []
                for file in _files(found):
                    where = f"{name}: {file if os.path.exists(path) else shown(path)}"
                    rows += read_csv(where, _text(where, file), schema, form, lenient)
            table = table_of_rows(table_env, texts, rows, name)
        elif any(cannot_be_text(column.type) for column in schema):
            table = self._by_format(table_env, path, texts)
        else:
            table = self._by_reader(table_env, path, texts)
        if os.path.exists(path) and not _needs_help(path, values):
            remember(CsvFiles(name, tuple(_files(path)), schema, form))
        self._fix()
        cells = ", ".join(f"{cell_sql(c, _or_null(c, form), lenient)} AS {quoted(c.name)}" for c in schema)
        return with_event_time(table_env, table_env.sql_query(f"SELECT {cells} FROM {table}"), watermark)

    def _by_format(self, table_env: StreamTableEnvironment, path: str, schema: Schema) -> Table:
        """Read with Flink's csv format, which reads types that are no text, and cannot leave out a line."""
        name, values = type(self).__name__, self._values_of_all()
        if values["ignoreFirstLine"]:
            column = next(column for column in schema if cannot_be_text(column.type))
            raise ConfigurationError(
                f"{name}: ignoreFirstLine cannot be used with the column {column.name!r} of type {column.type.sql}: read it as "
                "STRING, or remove the line from the file"
            )
        options = {
            "connector": "filesystem",
            "path": path,
            "format": "csv",
            "csv.field-delimiter": values["fieldDelimiter"],
            "csv.quote-character": values["quoteChar"],
            "csv.null-literal": "",
        }
        return _table_of(table_env, [f"{quoted(c.name)} {c.type.sql}" for c in schema], options)

    def _by_reader(self, table_env: StreamTableEnvironment, path: str, schema: Schema) -> Table:
        """Read text with the reader below Flink's csv format."""
        from pyflink.common import WatermarkStrategy
        from pyflink.datastream.connectors.file_system import FileSource
        from pyflink.datastream.formats.csv import CsvReaderFormat, CsvSchema

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
        return table_env.from_data_stream(stream)


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


def _form(values: dict[str, Any]) -> CsvForm:
    return CsvForm(
        values["fieldDelimiter"],
        values["quoteChar"],
        values["rowDelimiter"],
        tuple(values["nullLiteral"] or ()),
        values["ignoreFirstLine"],
        values["skipBlankLine"],
    )


def _or_null(column: Column, form: CsvForm) -> str:
    """Return the SQL of a cell's text, null for literals of null."""
    name = quoted(column.name)
    if not form.null_literals or cannot_be_text(column.type):
        return name
    literals = ", ".join("'{}'".format(literal.replace("'", "''")) for literal in form.null_literals)
    return f"CASE WHEN {name} IN ({literals}) THEN CAST(NULL AS STRING) ELSE {name} END"


def _needs_help(path: str, values: dict[str, Any]) -> bool:
    """Whether this program has to read files itself."""
    if path.startswith(("http://", "https://")) or values["lenient"] or values["rowDelimiter"] not in LINE_ENDS:
        return True
    if not is_name_of_flink(path):
        return True
    if "://" in path or not values["skipBlankLine"]:
        return False
    return any(_has_blank_line(file) for file in _files(path))


def _files(path: str) -> list[str]:
    """Return a file, or all files below a folder but hidden ones, as Flink does."""
    if not os.path.isdir(path):
        return [path]
    found = []
    for parent, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [os.path.join(parent, name) for name in names if not name.startswith((".", "_"))]
    return sorted(found)


def _has_blank_line(path: str) -> bool:
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if os.path.getsize(path) else (nullcontext(b"")) as data,
    ):
        return has_blank_line(data)


def _text(where: str, file: str) -> str:
    try:
        TABLE.check(os.path.getsize(file))
    except LimitError as error:
        raise ConfigurationError(f"{where}: {error}; or let Flink read it, which lenient and rowDelimiter prevent") from None
    with open(file, encoding="utf-8-sig", newline="") as opened:
        try:
            return opened.read()
        except UnicodeDecodeError as error:
            raise not_utf8(where, error) from None


class RandomTableSourceBatchOp(RandomTableParams, SourceOperator, BatchOperator):
    """A table of random numbers, DOUBLE columns, for trying things out. Each run draws new numbers.

    Example:
        points = RandomTableSourceBatchOp(numRows=100, numCols=2, outputCols=["x", "y"], outputColConfs="x:gauss(0,1)")
    """

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        values = self._values_of_all()
        table = _random_table(table_env, type(self).__name__, values, values["numRows"], 0, None)
        self._fix()
        return table


class RandomTableSourceStreamOp(RandomStreamParams, SourceOperator, StreamOperator):
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
