"""Sources: CSV and .ak files, and random numbers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import IO, TYPE_CHECKING, Any, TypeVar

from akdl.masking import shown
from akdl.storage.limits import TABLE, LimitError
from akdl.wire.column_type import Kind, parse_type
from bridge.exceptions import ConfigurationError
from bridge.schema import Column, Schema, quoted, split_watermark
from operators.alink.ak_cells import MOST_DIGITS, digits_of
from operators.alink.ak_file import read_rows, read_schema
from operators.alink.random_columns import expression, read_distributions
from operators.base.job import session_zone
from operators.base.source_operator import SourceOperator
from operators.batch_operator import BatchOperator
from operators.errors.csv_faults import CsvFiles, remember
from operators.params.accessors import AkSourceParams, CsvParams, RandomStreamParams, RandomTableParams
from operators.prepare.fetched_file import fetched, is_name_of_flink
from operators.stream_operator import StreamOperator
from operators.tables.csv_cells import cell_sql, has_no_cast
from operators.tables.csv_rows import LINE_ENDS, CsvForm, check_header, has_blank_line, not_utf8, open_bytes, open_csv, read_csv
from operators.tables.memory_table import memory_table

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table

T = TypeVar("T")
_PIECE = 16 << 20  # bytes of a CSV file that are searched at once
_numbers = itertools.count()


class _CsvSource(CsvParams, SourceOperator):
    def _make(self, table_env: StreamTableEnvironment) -> Table:
        from bridge.flink.time_attributes import with_event_time

        values = self._values_of_all()
        name, path, lenient = type(self).__name__, values["filePath"], values["lenient"]
        columns, watermark = split_watermark(values["schemaStr"])
        schema = Schema.parse(columns).all_nullable  # a cell may be empty, which Flink would read as a number if NOT NULL
        if "://" not in path:
            path = os.path.abspath(path)
            if not os.path.exists(path):
                hint = "; sources such as FileSourceBatchOp read patterns" if set("*?[") & set(path) else ""
                raise ConfigurationError(f"{name}: parameter 'filePath': there is no file {path}{hint}")
        delimiters = values["fieldDelimiter"], values["quoteChar"], values["rowDelimiter"]
        form = CsvForm(*delimiters, tuple(values["nullLiteral"] or ()), values["ignoreFirstLine"], values["skipBlankLine"])
        texts = Schema(tuple(c if has_no_cast(c.type) else Column(c.name, parse_type("STRING")) for c in schema))
        if _flink_reads(path, values):
            table = _read_by_flink(table_env, path, texts, form)
            if os.path.exists(path):
                remember(CsvFiles(name, tuple(_files(path)), schema, form))
                for file in _files(path):
                    _check_header(f"{name}: {file}", file, schema, form)
        else:
            rows: list[tuple[Any, ...]] = []
            with fetched(name, "filePath", path) as found:
                for file in _files(found):
                    where = f"{name}: {file if os.path.exists(path) else shown(path)}"
                    rows += _rows(where, file, schema, form, lenient)
            table = memory_table(table_env, texts, rows, name)
        cells = ", ".join(f"{cell_sql(c, _or_null(c, form), lenient)} AS {quoted(c.name)}" for c in schema)
        return with_event_time(table_env, table_env.sql_query(f"SELECT {cells} FROM {table}"), watermark)


class CsvSourceBatchOp(_CsvSource, BatchOperator):
    """A CSV file or a folder of them, in UTF-8; an empty cell is null.

    Flink reads the files in the job. This program reads them, and ships the rows with the job, if they have an http address,
    blank lines or another row delimiter, or with `lenient`.

    Example:
        trips = CsvSourceBatchOp(filePath="trips.csv", ignoreFirstLine=True, schemaStr="id BIGINT, `start time` TIMESTAMP(3)")

    Raises:
        ConfigurationError: A parameter is wrong, or the file does not exist. A cell that does not fit the type of its column
            raises an error with file and line in the call that runs the job.
    """


class CsvSourceStreamOp(_CsvSource, StreamOperator):
    """A CSV file or a folder of them as a bounded stream, see `CsvSourceBatchOp`."""


def _or_null(column: Column, form: CsvForm) -> str:
    name = quoted(column.name)
    if not form.null_literals or has_no_cast(column.type):
        return name
    literals = ", ".join("'{}'".format(literal.replace("'", "''")) for literal in form.null_literals)
    return f"CASE WHEN {name} IN ({literals}) THEN CAST(NULL AS STRING) ELSE {name} END"


def _flink_reads(path: str, values: dict[str, Any]) -> bool:
    """Return True if Flink's reader can read the files; it cannot skip blank lines, for one."""
    if path.startswith(("http://", "https://")) or values["lenient"] or values["rowDelimiter"] not in LINE_ENDS:
        return False
    if "://" in path or not values["skipBlankLine"]:
        return is_name_of_flink(path)
    return is_name_of_flink(path) and not any(map(_has_blank_line, _files(path)))


def _read_by_flink(table_env: StreamTableEnvironment, path: str, schema: Schema, form: CsvForm) -> Table:
    """Table of texts, and of cells that only Flink reads: ARRAY and BYTES."""
    from pyflink.common import WatermarkStrategy
    from pyflink.datastream import StreamExecutionEnvironment
    from pyflink.datastream.connectors.file_system import FileSource
    from pyflink.datastream.formats.csv import CsvReaderFormat, CsvSchema
    from pyflink.java_gateway import get_gateway

    from bridge.flink.arrow_operators import logical_type

    columns = CsvSchema.builder()
    for column in schema:
        (columns.add_array_column if column.type.is_array else columns.add_string_column)(column.name)
    columns.set_column_separator(form.field_delimiter).set_quote_char(form.quote_char).set_null_value("")
    if form.ignore_first_line:
        columns.set_skip_first_data_row()
    flink = get_gateway().jvm.org.apache.flink
    row_type = logical_type("ROW<" + ", ".join(f"{quoted(column.name)} {column.type.sql}" for column in schema) + ">")
    data_type = flink.table.types.utils.TypeConversions.fromLogicalToDataType(row_type)
    make_reader = flink.formats.csv.PythonCsvUtils.createCsvReaderFormat  # directly, as PyFlink's schema has no BYTES
    reader = CsvReaderFormat(make_reader(columns.build()._j_schema, data_type))
    source = FileSource.for_record_stream_format(reader, path).build()
    stream_env, watermarks = StreamExecutionEnvironment(table_env._j_tenv.execEnv()), WatermarkStrategy.no_watermarks()
    return table_env.from_data_stream(stream_env.from_source(source, watermarks, f"CSV {shown(path)}"))


def _files(path: str) -> list[str]:
    """A file, or all files below a folder except hidden ones, as Flink lists them."""
    if not os.path.isdir(path):
        return [path]
    found = []
    for parent, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        found += [os.path.join(parent, name) for name in names if not name.startswith((".", "_"))]
    return sorted(found)


def _has_blank_line(path: str) -> bool:
    with open_bytes(path) as file:
        return any(map(has_blank_line, iter(lambda: file.read(_PIECE) + file.readline(), b"")))


def _rows(where: str, path: str, schema: Schema, form: CsvForm, lenient: bool) -> list[tuple[Any, ...]]:
    try:
        TABLE.check(os.path.getsize(path))
    except LimitError as error:
        raise ConfigurationError(f"{where}: {error}; or let Flink read it, without lenient and rowDelimiter") from None
    _check_header(where, path, schema, form)
    return _read(where, path, schema, form, lambda file: list(read_csv(where, file, schema, form, lenient)))


def _check_header(where: str, path: str, schema: Schema, form: CsvForm) -> None:
    if form.ignore_first_line:
        _read(where, path, schema, form, lambda file: check_header(where, file, schema, form))


def _read(where: str, path: str, schema: Schema, form: CsvForm, read: Callable[[IO[str]], T]) -> T:
    try:
        with open_csv(path) as file:
            return read(file)
    except UnicodeDecodeError as error:
        raise not_utf8(where, path, schema, form) or error from None


class _AkSource(AkSourceParams, SourceOperator):
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
                        f"{type(self).__name__}: parameter 'filePath': {file} and {files[0]} have different columns: use "
                        "one folder per table"
                    )
            zone = session_zone(values["timeZone"], table_env)
            rows = [row for file in files for row in read_rows(file, zone)]
            schema = _with_digits(f"{type(self).__name__}: {path}", schema, rows)
        return memory_table(table_env, schema, rows, type(self).__name__)


class AkSourceBatchOp(_AkSource, BatchOperator):
    """An .ak file or a folder of them, read entirely by this program: a path, http(s), or an address for fsspec.

    Example:
        predict.linkFrom(AkSourceBatchOp(filePath="model.ak"), data)

    Raises:
        ConfigurationError: The file does not exist or is damaged; raised when the table is first needed.
    """


class AkSourceStreamOp(_AkSource, StreamOperator):
    """An .ak file or a folder of them as a bounded stream, see `AkSourceBatchOp`."""


def _with_digits(where: str, schema: Schema, rows: list[tuple[Any, ...]]) -> Schema:
    """Give each DECIMAL column the scale that its cells need, but at least 18 where the digits suffice."""
    columns = list(schema)
    for place, column in enumerate(columns):
        if column.type.kind is Kind.DECIMAL:
            before, after = digits_of(row[place] for row in rows if row[place] is not None)
            if before + after > MOST_DIGITS:
                raise ConfigurationError(
                    f"{where}: column {column.name!r} has numbers of {before} digits before and {after} after the decimal "
                    f"point; at most {MOST_DIGITS} in all are supported: write them as text in Alink"
                )
            scale = max(after, min(18, MOST_DIGITS - before))
            columns[place] = replace(column, type=parse_type(f"DECIMAL({MOST_DIGITS}, {scale})"))
    return Schema(tuple(columns))


class RandomTableSourceBatchOp(RandomTableParams, SourceOperator, BatchOperator):
    """A table of DOUBLE columns with random numbers, for experiments. Each run draws new numbers.

    Example:
        points = RandomTableSourceBatchOp(numRows=100, numCols=2, outputCols=["x", "y"], outputColConfs="x:gauss(0,1)")
    """

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        values = self._values_of_all()
        return _random_table(table_env, type(self).__name__, values, values["numRows"], 0, None)


class RandomTableSourceStreamOp(RandomStreamParams, SourceOperator, StreamOperator):
    """A stream of `maxRows` rows: a row number from 1, and DOUBLE columns with random numbers, new ones in each run.

    Flink's generator keeps the numbers of all remaining rows in memory, about 30 bytes each.

    Example:
        points = RandomTableSourceStreamOp(maxRows=1000, numCols=2, timePerSample=0.01)
    """

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        values = self._values_of_all()
        name, seconds, zones = type(self).__name__, values["timePerSample"], values["timeZones"]
        if seconds is None and zones is not None:
            seconds = sum(zones) / 2
        return _random_table(table_env, name, values, values["maxRows"], 1, Fraction(seconds) if seconds else None)


def _random_table(
    table_env: StreamTableEnvironment, operator: str, values: dict[str, Any], rows: int, first: int, seconds: Fraction | None
) -> Table:
    """Table of rows with ids from `first`, one every `seconds` or as fast as possible."""
    names = values["outputCols"] or [f"col{i}" for i in range(values["numCols"])]
    if len(names) != values["numCols"]:
        raise ConfigurationError(f"{operator}: outputCols: expected {values['numCols']} names (numCols), got {len(names)}")
    if values["idCol"] in names:
        raise ConfigurationError(f"{operator}: idCol {values['idCol']!r} is also in outputCols: rename one")
    distributions = read_distributions(values["outputColConfs"] or "", names)
    draws: list[str] = []
    columns = [f"{expression(distributions.get(name), draws)} AS {quoted(name)}" for name in names]
    # Flink's generator has integer rates: for slower or fractional ones, only every n-th row is kept.
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
