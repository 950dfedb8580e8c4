"""Sources: thin layers over Flink's own connectors."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pandas as pd

from bridge.exceptions import ConfigurationError, SchemaError
from bridge.flink.errors import readable
from bridge.schema import ColumnType, Kind, Schema, quoted
from operators.batch_operator import BatchOperator, Operator, environment_of, execution_environment_of
from operators.flink.env import getMLEnv
from operators.flink.java import know_planner
from operators.params.accessors import CsvParams, RandomStreamParams, RandomTableParams
from operators.stream_operator import StreamOperator

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table

_numbers = itertools.count()


class _Source(Operator[Any]):
    """A source makes its table when it is first needed, in the environment of that moment."""

    def getOutputTable(self) -> Table:
        """Return the table as plain PyFlink, to go on in SQL or the Table API."""
        if self._table is None:
            environments = getMLEnv()
            try:
                self._table = self._make(environments.stenv if isinstance(self, StreamOperator) else environments.btenv)
            except ConfigurationError:
                raise
            except Exception as error:
                raise readable(error) from None
        return self._table

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        raise NotImplementedError(type(self).__name__)


class _TableSource(Operator[Any]):
    """A plain PyFlink table; what follows runs in that table's environment."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        if not hasattr(table, "get_resolved_schema"):
            raise ConfigurationError(f"{type(self).__name__}: expected a PyFlink Table, got a {type(table).__name__}")
        know_planner(environment_of(table))
        self._table = table


class TableSourceBatchOp(_TableSource, BatchOperator):
    """A plain PyFlink table with an end; what follows runs in that table's environment."""


class TableSourceStreamOp(_TableSource, StreamOperator):
    """A plain PyFlink table, with or without end; what follows runs in that table's environment."""


class MemSourceBatchOp(_Source, BatchOperator):
    """Rows from memory.

    Args:
        data: A list of rows (tuples or lists), or a pandas DataFrame. In a DataFrame NaN and None are null.
        schemaStr: "name type, name type", in the order of the cells. The columns of a DataFrame with the same names are
            taken by their names, those of one with other names in their order.
    """

    def __init__(self, data: Sequence[Sequence[Any]] | pd.DataFrame, schemaStr: str) -> None:
        super().__init__()
        if not isinstance(data, (pd.DataFrame, list, tuple)):
            raise ConfigurationError(
                f"MemSourceBatchOp: expected a list of rows or a pandas DataFrame, got a {type(data).__name__}"
            )
        try:
            self._schema = Schema.parse(schemaStr)
        except SchemaError as error:
            raise ConfigurationError(f"MemSourceBatchOp: parameter 'schemaStr': {error}") from None
        self._data = data

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        from pyflink.table import DataTypes

        self._check_widths()
        if not len(self._data):
            columns = ", ".join(f"CAST(NULL AS {c.type.sql}) AS {quoted(c.name)}" for c in self._schema)
            return table_env.sql_query(f"SELECT {columns} FROM (VALUES (0)) AS nothing(x) WHERE x > 0")
        row_type = DataTypes.ROW([DataTypes.FIELD(c.name, _data_type(c.type)) for c in self._schema])
        try:
            if isinstance(self._data, pd.DataFrame):
                return table_env.from_pandas(_in_utc(self._in_order(self._data)), row_type)
            return table_env.from_elements([tuple(map(_cell, row)) for row in self._data], row_type)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ConfigurationError(f"MemSourceBatchOp: {': '.join(map(str, error.args))}") from None

    def _in_order(self, frame: pd.DataFrame) -> pd.DataFrame:
        names, given = self._schema.names, [str(name) for name in frame.columns]
        frame = frame.set_axis(given, axis=1)
        if sorted(given) == sorted(names):
            return frame[names]
        moved = [name for place, name in enumerate(given) if name in names and names.index(name) != place]
        if moved:
            raise ConfigurationError(
                f"MemSourceBatchOp: the DataFrame has the columns {', '.join(given)}, the schema {', '.join(names)}: "
                f"{', '.join(moved)} would get another column's values; give both the same names, or none in common"
            )
        return frame.set_axis(names, axis=1)

    def _check_widths(self) -> None:
        width = len(self._schema.columns)
        if isinstance(self._data, pd.DataFrame):
            if len(self._data.columns) != width:
                raise ConfigurationError(f"MemSourceBatchOp: {len(self._data.columns)} columns for a schema of {width}")
            return
        for number, row in enumerate(self._data):
            if not isinstance(row, (list, tuple)):
                raise ConfigurationError(f"MemSourceBatchOp: row {number}: expected a tuple or a list, got {row!r}")
            if len(row) != width:
                raise ConfigurationError(f"MemSourceBatchOp: row {number} has {len(row)} cells for a schema of {width}: {row}")


def _in_utc(frame: pd.DataFrame) -> pd.DataFrame:
    """Return instants in UTC: PyFlink would give Flink those of other zones as local times, and so as other instants."""
    zoned = frame.select_dtypes("datetimetz")
    return frame.assign(**{name: zoned[name].dt.tz_convert("UTC").dt.tz_localize(None) for name in zoned.columns})


def _cell(value: Any) -> Any:
    """Return a cell as PyFlink takes it: octets as a bytearray."""
    if isinstance(value, (list, tuple)):
        return [_cell(element) for element in value]
    return bytearray(value) if isinstance(value, bytes) else value


class _CsvSource(CsvParams, _Source):
    """A CSV file or a folder of them, read by Flink. An empty cell is null; an empty line fails the job."""

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        values = self._values_of_all()
        path = values["filePath"]
        if "://" not in path:
            path = os.path.abspath(path)
            if not os.path.exists(path):
                raise ConfigurationError(f"{type(self).__name__}: parameter 'filePath': there is no file {path}")
        schema = Schema.parse(values["schemaStr"])
        if values["ignoreFirstLine"]:
            table = self._without_first_line(table_env, path, schema)
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
        self._fix()
        return table

    def _without_first_line(self, table_env: StreamTableEnvironment, path: str, schema: Schema) -> Table:
        """Read texts with the reader below Flink's csv format, which itself cannot leave out a line, and cast them."""
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
        texts = CsvReaderFormat.for_schema(reader.set_skip_first_data_row().build())
        source = FileSource.for_record_stream_format(texts, path).build()
        stream = execution_environment_of(table_env).from_source(source, WatermarkStrategy.no_watermarks(), f"CSV {path}")
        view = f"akdl_csv_{next(_numbers)}"
        table_env.create_temporary_view(view, table_env.from_data_stream(stream))
        cells = ", ".join(f"CAST({quoted(c.name)} AS {c.type.sql}) AS {quoted(c.name)}" for c in schema)
        return table_env.sql_query(f"SELECT {cells} FROM {view}")


class CsvSourceBatchOp(_CsvSource, BatchOperator):
    """A CSV file or a folder of them, read by Flink. An empty cell is null; an empty line fails the job."""


class CsvSourceStreamOp(_CsvSource, StreamOperator):
    """A CSV file or a folder of them as a stream with an end. An empty cell is null; an empty line fails the job."""


class RandomTableSourceBatchOp(RandomTableParams, _Source, BatchOperator):
    """A table of random numbers, DOUBLE columns, for trying things out. Each run draws new numbers."""

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        values = self._values_of_all()
        table = _random_table(table_env, type(self).__name__, values, values["numRows"], 0, None)
        self._fix()
        return table


class RandomTableSourceStreamOp(RandomStreamParams, _Source, StreamOperator):
    """A stream of `maxRows` rows of random numbers, DOUBLE columns, and their number, from 1. Each run draws new numbers.

    Flink's generator keeps the numbers of all rows to come in memory, about 30 bytes each.
    """

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        values = self._values_of_all()
        name, seconds = type(self).__name__, values["timePerSample"]
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
    distributions = _distributions(values["outputColConfs"] or "", names)
    draws: list[str] = []
    columns = [f"{_expression(distributions.get(name), draws)} AS {quoted(name)}" for name in names]
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
        options["scan.parallelism"] = "1"  # subtasks share the rate, and one that is left with none would wait for ever
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


# Distributions of random columns.

_CONF = re.compile(r"\s*([^:\s]+)\s*:\s*(\w+)\s*\(([^()]*)\)\s*")
_ARGUMENTS = {"uniform": 2, "uniform_open": 2, "gauss": 2, "poisson": 1}

_Distribution = tuple[str, list[float], float]  # name, arguments, share of nulls


def _distributions(text: str, names: list[str]) -> dict[str, _Distribution]:
    """Read "name:dist(args);name:dist(args, nullper=p)"."""
    result = {}
    for part in filter(str.strip, text.split(";")):
        found = _CONF.fullmatch(part)
        if found is None or found.group(1) not in names:
            raise _conf_error(part, f"name:distribution(numbers) with one of the columns {', '.join(names)}")
        result[found.group(1)] = _distribution(part, found.group(2), found.group(3))
    return result


def _distribution(part: str, name: str, arguments: str) -> _Distribution:
    pieces = [piece.strip() for piece in arguments.split(",") if piece.strip()]
    nulls = 0.0
    try:
        if pieces and pieces[-1].replace(" ", "").startswith("nullper="):
            nulls = float(pieces.pop().split("=")[1])
        numbers = [float(piece) for piece in pieces]
    except ValueError:
        raise _conf_error(part, "numbers in the brackets, and at most nullper=p at their end") from None
    if name == "weight_set":
        fits = len(numbers) >= 2 and len(numbers) % 2 == 0 and min(numbers[1::2]) >= 0 < sum(numbers[1::2])
    else:
        fits = len(numbers) == _ARGUMENTS.get(name)
    if name == "poisson" and fits:
        fits = 0 < numbers[0] <= 100  # beyond, the table of its probabilities would get long
    if not fits or not 0 <= nulls <= 1:
        raise _conf_error(
            part,
            "uniform(low,high), uniform_open(low,high), gauss(mean,sd), poisson(mean to 100) or weight_set(value,weight,...)",
        )
    return name, numbers, nulls


def _conf_error(part: str, expected: str) -> ConfigurationError:
    return ConfigurationError(
        f"RandomTableSourceBatchOp: parameter 'outputColConfs': expected {expected}, got {part.strip()!r}"
    )


def _expression(distribution: _Distribution | None, draws: list[str]) -> str:
    """Return SQL for one column over draws from [0, 1), whose names are added to `draws`."""

    def draw() -> str:
        draws.append(f"u{len(draws)}")
        return draws[-1]

    name, numbers, nulls = distribution or ("uniform", [0.0, 1.0], 0.0)
    if name in {"uniform", "uniform_open"}:
        value = f"{_literal(numbers[0])} + {draw()} * {_literal(numbers[1] - numbers[0])}"
    elif name == "gauss":  # Box and Muller
        radius = f"SQRT({_literal(-2.0)} * LN({_literal(1.0)} - {draw()}))"
        value = f"{_literal(numbers[0])} + {_literal(numbers[1])} * {radius} * COS({_literal(2 * math.pi)} * {draw()})"
    elif name == "poisson":
        value = _choice(draw(), [(float(k), weight) for k, weight in enumerate(_poisson(numbers[0]))])
    else:
        value = _choice(draw(), list(zip(numbers[::2], numbers[1::2])))
    return f"CASE WHEN {draw()} < {_literal(nulls)} THEN CAST(NULL AS DOUBLE) ELSE {value} END" if nulls else value


def _choice(draw: str, weighted: list[tuple[float, float]]) -> str:
    total, below = sum(weight for _, weight in weighted), 0.0
    cases = []
    for value, weight in weighted[:-1]:
        below += weight
        cases.append(f"WHEN {draw} < {_literal(below / total)} THEN {_literal(value)}")
    last = _literal(weighted[-1][0])
    return f"CASE {' '.join(cases)} ELSE {last} END" if cases else last


def _poisson(mean: float) -> list[float]:
    """Return the probabilities of 0, 1, 2 and so on, up to where they no longer matter."""
    probabilities = [math.exp(-mean)]
    while sum(probabilities) < 1 - 1e-12 and len(probabilities) < 1000:
        probabilities.append(probabilities[-1] * mean / len(probabilities))
    return probabilities


def _literal(number: float) -> str:
    return f"CAST({number!r} AS DOUBLE)"


def _data_type(column: ColumnType) -> Any:
    from pyflink.table import DataTypes

    makers: dict[Kind, Any] = {
        Kind.STRING: lambda *length: DataTypes.VARCHAR(*length) if length else DataTypes.STRING(),
        Kind.BYTES: lambda *length: DataTypes.VARBINARY(*length) if length else DataTypes.BYTES(),
    }
    make = makers.get(column.kind) or getattr(DataTypes, column.kind.value)
    element = make(*column.arguments)
    if not column.is_array:
        return element if column.nullable else element.not_null()
    array = DataTypes.ARRAY(element if column.element_nullable else element.not_null())
    return array if column.nullable else array.not_null()
