"""Sources: .ak files and random numbers, the distributions of which are SQL over uniform draws."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from akdl.wire.column_type import Kind, parse_type
from bridge.exceptions import ConfigurationError
from bridge.files.listing import list_files
from bridge.schema import Schema, quoted
from operators.alink.ak_cells import MOST_DIGITS, digits_of
from operators.alink.ak_file import read_rows, read_schema
from operators.base.job import session_zone
from operators.base.source_operator import SourceOperator, fetched
from operators.batch_operator import BatchOperator
from operators.flink.memory_table import memory_table
from operators.params.accessors import AkSourceParams, RandomStreamParams, RandomTableParams
from operators.stream_operator import StreamOperator

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table


class _AkSource(AkSourceParams, SourceOperator):
    def _make(self, table_env: StreamTableEnvironment) -> Table:
        values = self._values_of_all()
        with fetched(self._name, values["filePath"]) as path:
            files = [file.path for file in list_files(self._name, [path])]
            schema = read_schema(files[0])
            for file in files[1:]:
                if read_schema(file) != schema:
                    raise ConfigurationError(
                        f"{self._name}: parameter 'filePath': {file} and {files[0]} have"
                        " different columns: use one folder per table"
                    )
            zone = session_zone(values["timeZone"], table_env)
            # The scale of a DECIMAL column follows from all of its cells, so all rows are read
            # before the table is made.
            rows = [row for file in files for row in read_rows(file, zone)]
            schema = _with_digits(f"{self._name}: {path}", schema, rows)
        return memory_table(table_env, schema, rows, self._name)


class AkSourceBatchOp(_AkSource, BatchOperator):
    """An .ak file or a folder of them, read entirely by this program: a path, http(s), or an
    address for fsspec.

    Example:
        predict.linkFrom(AkSourceBatchOp(filePath="model.ak"), data)

    Raises:
        ConfigurationError: The file does not exist or is damaged; raised when the table is first
            needed.
    """


class AkSourceStreamOp(_AkSource, StreamOperator):
    """An .ak file or a folder of them as a bounded stream, see `AkSourceBatchOp`."""


def _with_digits(where: str, schema: Schema, rows: list[tuple[Any, ...]]) -> Schema:
    """Give each DECIMAL column the scale that its cells need, but at least 18 where the digits
    suffice.
    """
    columns = list(schema)
    for place, column in enumerate(columns):
        if column.type.kind is Kind.DECIMAL:
            before, after = digits_of(row[place] for row in rows if row[place] is not None)
            if before + after > MOST_DIGITS:
                raise ConfigurationError(
                    f"{where}: column {column.name!r} has numbers of {before} digits before and"
                    f" {after} after the decimal point; at most {MOST_DIGITS} in all are supported:"
                    " write them as text in Alink"
                )
            scale = max(after, min(18, MOST_DIGITS - before))
            columns[place] = replace(column, type=parse_type(f"DECIMAL({MOST_DIGITS}, {scale})"))
    return Schema(tuple(columns))


class RandomTableSourceBatchOp(RandomTableParams, SourceOperator, BatchOperator):
    """A table of DOUBLE columns with random numbers, for experiments. Each run draws new numbers.

    Example:
        points = RandomTableSourceBatchOp(
            numRows=100, numCols=2, outputCols=["x", "y"], outputColConfs="x:gauss(0,1)"
        )
    """

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        values = self._values_of_all()
        return _random_table(table_env, self._name, values, values["numRows"], 0, None)


class RandomTableSourceStreamOp(RandomStreamParams, SourceOperator, StreamOperator):
    """A stream of `maxRows` rows: a row number from 1, and DOUBLE columns with random numbers, new
    ones in each run.

    Flink's generator keeps the numbers of all remaining rows in memory, about 30 bytes each, and of
    a stream with less than a row per second as many for each second.

    Example:
        points = RandomTableSourceStreamOp(maxRows=1000, numCols=2, timePerSample=0.01)
    """

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        values = self._values_of_all()
        seconds = values["timePerSample"]
        zones = values["timeZones"]
        if seconds is None and zones is not None:
            # Flink's generator has a constant rate, so rows come in the middle of the range.
            seconds = sum(zones) / 2
        rate = Fraction(seconds) if seconds else None
        return _random_table(table_env, self._name, values, values["maxRows"], 1, rate)


def _random_table(
    table_env: StreamTableEnvironment,
    operator: str,
    values: dict[str, Any],
    rows: int,
    first: int,
    seconds: Fraction | None,
) -> Table:
    """Table of rows with ids from `first`, one every `seconds` or as fast as possible."""
    from pyflink.table import Schema as FlinkSchema
    from pyflink.table import TableDescriptor

    names = values["outputCols"] or [f"col{i}" for i in range(values["numCols"])]
    if len(names) != values["numCols"]:
        raise ConfigurationError(
            f"{operator}: outputCols: expected {values['numCols']} names (numCols), got"
            f" {len(names)}"
        )
    if values["idCol"] in names:
        raise ConfigurationError(
            f"{operator}: idCol {values['idCol']!r} is also in outputCols: rename one"
        )
    distributions = read_distributions(values["outputColConfs"] or "", names)
    draws: list[str] = []
    columns = [f"{expression(distributions.get(name), draws)} AS {quoted(name)}" for name in names]
    # Flink's generator makes a whole number of rows per second. For a slower or fractional rate it
    # makes more rows, of which every n-th one is kept.
    per_second, every = rate_of(seconds).as_integer_ratio() if seconds else (1_000_000_000, 1)
    if values["idCol"] is not None:
        columns.insert(0, f"row_id / {every} + {first} AS {quoted(values['idCol'])}")
    generated = max(rows, 1) * every
    options = {
        "rows-per-second": str(per_second),
        "number-of-rows": str(generated),
        "fields.row_id.kind": "sequence",
        "fields.row_id.start": "0",
        "fields.row_id.end": str(generated - 1),
    }
    if seconds:
        # Subtasks share the rate, and a subtask with a rate of 0 would wait indefinitely.
        options["scan.parallelism"] = "1"
    types = FlinkSchema.new_builder().column("row_id", "BIGINT")
    for draw in draws:
        types.column(draw, "DOUBLE")
        options[f"fields.{draw}.min"], options[f"fields.{draw}.max"] = "0", "1"
    described = TableDescriptor.for_connector("datagen").schema(types.build())
    for key, value in options.items():
        described.option(key, value)
    drawn = table_env.from_descriptor(described.build())
    # For zero rows the generator still makes some, which this condition leaves out.
    kept = f"row_id < {rows * every}" + (f" AND MOD(row_id, {every}) = 0" if every > 1 else "")
    return table_env.sql_query(f"SELECT {', '.join(columns)} FROM {drawn} WHERE {kept}")


def rate_of(seconds: Fraction) -> Fraction:
    """Rows per second, with a denominator that is not much larger than it has to be."""
    return (1 / seconds).limit_denominator(max(1000, round(seconds)))


_CONF = re.compile(r"\s*([^:\s]+)\s*:\s*(\w+)\s*\(([^()]*)\)\s*")
_ARGUMENTS = {"uniform": 2, "uniform_open": 2, "gauss": 2, "poisson": 1}

# These are the name, the arguments, and the share of nulls.
Distribution = tuple[str, list[float], float]


def read_distributions(text: str, names: list[str]) -> dict[str, Distribution]:
    """Parse "name:dist(args);name:dist(args, nullper=p)"."""
    result = {}
    for part in filter(str.strip, text.split(";")):
        match = _CONF.fullmatch(part)
        if match is None or match[1] not in names:
            raise _conf_error(
                part, f"name:distribution(numbers) for one of the columns {', '.join(names)}"
            )
        result[match[1]] = _distribution(part, match[2], match[3])
    return result


def _distribution(part: str, name: str, arguments: str) -> Distribution:
    pieces = [piece.strip() for piece in arguments.split(",") if piece.strip()]
    nulls = 0.0
    try:
        if pieces and pieces[-1].replace(" ", "").startswith("nullper="):
            nulls = float(pieces.pop().split("=")[1])
        numbers = [float(piece) for piece in pieces]
    except ValueError:
        raise _conf_error(
            part, "numbers in the parentheses, optionally followed by nullper=p"
        ) from None
    if name == "weight_set":
        fits = (
            len(numbers) >= 2
            and len(numbers) % 2 == 0
            and min(numbers[1::2]) >= 0 < sum(numbers[1::2])
        )
    else:
        fits = len(numbers) == _ARGUMENTS.get(name)
    if name == "poisson" and fits:
        # The SQL has a case for each likely number, and their count grows with the mean.
        fits = 0 < numbers[0] <= 100
    if not fits or not 0 <= nulls <= 1:
        raise _conf_error(
            part,
            "uniform(low,high), uniform_open(low,high), gauss(mean,sd), poisson(mean up to 100) or"
            " weight_set(value,weight,..)",
        )
    return name, numbers, nulls


def _conf_error(part: str, expected: str) -> ConfigurationError:
    return ConfigurationError(
        f"RandomTableSourceBatchOp: parameter 'outputColConfs': expected {expected}, got"
        f" {part.strip()!r}"
    )


def expression(distribution: Distribution | None, draws: list[str]) -> str:
    """SQL of one column over uniform draws from [0, 1), whose names are added to `draws`."""

    def draw() -> str:
        draws.append(f"u{len(draws)}")
        return draws[-1]

    name, numbers, nulls = distribution or ("uniform", [0.0, 1.0], 0.0)
    if name in {"uniform", "uniform_open"}:
        value = f"{_literal(numbers[0])} + {draw()} * {_literal(numbers[1] - numbers[0])}"
    # This is the method of Box and Muller. A draw is less than 1, so 1 minus the draw is greater
    # than 0 and has a logarithm.
    elif name == "gauss":
        radius = f"SQRT({_literal(-2.0)} * LN({_literal(1.0)} - {draw()}))"
        value = (
            f"{_literal(numbers[0])} + {_literal(numbers[1])} * {radius} *"
            f" COS({_literal(2 * math.pi)} * {draw()})"
        )
    elif name == "poisson":
        value = _choice(
            draw(), [(float(k), weight) for k, weight in enumerate(poisson(numbers[0]))]
        )
    else:
        value = _choice(draw(), list(zip(numbers[::2], numbers[1::2])))
    if nulls:
        return f"CASE WHEN {draw()} < {_literal(nulls)} THEN CAST(NULL AS DOUBLE) ELSE {value} END"
    return value


def _choice(draw: str, weighted: list[tuple[float, float]]) -> str:
    total = sum(weight for _, weight in weighted)
    below = 0.0
    cases = []
    for value, weight in weighted[:-1]:
        below += weight
        cases.append(f"WHEN {draw} < {_literal(below / total)} THEN {_literal(value)}")
    # The last value needs no bound, so sums that rounding leaves below 1 do no harm.
    last = _literal(weighted[-1][0])
    return f"CASE {' '.join(cases)} ELSE {last} END" if cases else last


def poisson(mean: float) -> list[float]:
    """Probabilities of the numbers from 0 on."""
    probabilities = [math.exp(-mean)]
    # The rest of the probability, less than 1e-12, goes to the last number. The bound of 1000 ends
    # the loop if rounding keeps the sum lower.
    while sum(probabilities) < 1 - 1e-12 and len(probabilities) < 1000:
        probabilities.append(probabilities[-1] * mean / len(probabilities))
    return probabilities


def _literal(number: float) -> str:
    # A literal such as 0.5 is a DECIMAL in Flink's SQL, whose arithmetic rounds to its digits.
    return f"CAST({number!r} AS DOUBLE)"
