"""The Flink graph of a predictor: a vectorized function over the columns that feed the model; others stay in the JVM."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyflink.table import DataTypes, StreamTableEnvironment, Table
from pyflink.table.types import DataType
from pyflink.table.udf import ScalarFunction, udf

from akdl.wire import FLOAT32, FLOAT64, INT64, ColumnValues, Prediction, Rows
from bridge.column_values import ColumnEncoder
from bridge.decoder import RowDecoder
from bridge.exceptions import RowError, TaskError
from bridge.model_process import ModelProcess, ModelSettings
from bridge.schema import Kind, Schema, quoted

_DATA_TYPES = {
    "BOOLEAN": DataTypes.BOOLEAN(),
    "TINYINT": DataTypes.TINYINT(),
    "SMALLINT": DataTypes.SMALLINT(),
    "INT": DataTypes.INT(),
    "BIGINT": DataTypes.BIGINT(),
    "FLOAT": DataTypes.FLOAT(),
    "DOUBLE": DataTypes.DOUBLE(),
    "STRING": DataTypes.STRING(),
    "BYTES": DataTypes.BYTES(),
}
_PLAIN = {  # value types whose bytes are a column as it is, by the column's kind
    Kind.FLOAT: (FLOAT32, "<f4"),
    Kind.DOUBLE: (FLOAT64, "<f8"),
    Kind.BIGINT: (INT64, "<i8"),
}


@dataclass(frozen=True)
class PredictionSettings:
    """What a predictor is told.

    Args:
        process: What its model process is told.
        model: Path of the model on every host; or, with `is_shipped`, the name of a file that the job carries along.
        is_shipped: Whether the job carries the model along.
        input_schema: The columns that feed the model, in order.
        output_schema: The result columns.
        result: Every column of the result: its name, and whether it is an output rather than an input that stays.
        error_column: Name of a column for what is wrong with a row; None to fail the job at the first such row.
    """

    process: ModelSettings
    model: str
    is_shipped: bool
    input_schema: Schema
    output_schema: Schema
    result: tuple[tuple[str, bool], ...]
    error_column: str | None = None


def predict_table(table_env: StreamTableEnvironment, table: Table, settings: PredictionSettings) -> Table:
    """Return the table with the model's outputs."""
    group, decoder = settings.process.group, RowDecoder(settings.output_schema, "the model")
    fields = [DataTypes.FIELD(f"o{place}", _data_type(sql)) for place, sql in enumerate([*decoder.transport_types, "STRING"])]
    function, view, predicted = f"akdl_predict_{group}", f"akdl_rows_{group}", f"akdl_predicted_{group}"
    predict = udf(_Predict(settings), result_type=DataTypes.ROW(fields), func_type="pandas")
    table_env.create_temporary_function(function, predict)
    table_env.create_temporary_view(view, table)
    stays = [name for name, is_output in settings.result if not is_output]
    arguments = ", ".join(ColumnEncoder(settings.input_schema).sql_arguments)
    kept = "".join(f"{quoted(name)} AS r{place}, " for place, name in enumerate(stays))
    calls = table_env.sql_query(f"SELECT {kept}{function}({arguments}) AS p FROM {view}")
    # The outputs get their own names, which the decoder's casts speak of, in a view without any other column.
    names = settings.output_schema.names
    flat = ", ".join(
        [f"r{place} AS akdl_r{place}" for place in range(len(stays))]
        + [f"p.o{place} AS {quoted(name)}" for place, name in enumerate(names)]
    )
    table_env.create_temporary_view(f"{predicted}_calls", calls)
    table_env.create_temporary_view(
        predicted, table_env.sql_query(f"SELECT {flat}, p.o{len(names)} AS akdl_error FROM {predicted}_calls")
    )
    casts = dict(zip(names, decoder.casts))
    columns = [
        casts[name] if is_output else f"akdl_r{stays.index(name)} AS {quoted(name)}" for name, is_output in settings.result
    ]
    if settings.error_column is not None:
        columns.append(f"akdl_error AS {quoted(settings.error_column)}")
    return table_env.sql_query(f"SELECT {', '.join(columns)} FROM {predicted}")


class _Predict(ScalarFunction):  # type: ignore[misc]
    """Columns to ROW(outputs..., error)."""

    def __init__(self, settings: PredictionSettings) -> None:
        self._settings = settings

    def open(self, function_context: Any) -> None:
        settings = self._settings
        self._encoder = ColumnEncoder(settings.input_schema)
        self._decoder = RowDecoder(settings.output_schema, "the model")
        self._process = ModelProcess(settings.process, _shipped(settings.model) if settings.is_shipped else settings.model)

    def close(self) -> None:
        if hasattr(self, "_process"):
            self._process.close()

    def is_deterministic(self) -> bool:
        return False  # the planner would call it once for each output

    def eval(self, *series: Any) -> pd.DataFrame:
        size, columns = self._encoder.encode(series)
        prediction = self._process.predict(Rows(rows=size, columns=columns))
        errors = self._errors(prediction, size)
        frame = self._outputs(prediction.rows)
        frame[len(frame.columns)] = errors
        return frame

    def _errors(self, prediction: Prediction, size: int) -> Any:
        errors = np.full(size, None, object)
        for bad in prediction.bad_rows:
            if self._settings.error_column is None:
                raise RowError(
                    f"{self._settings.process.operator}: row {bad.row} of a batch cannot be predicted: {bad.message}; "
                    "errorCol names a column for such messages, if the job should go on"
                )
            errors[bad.row] = bad.message
        return errors

    def _outputs(self, rows: Rows) -> pd.DataFrame:
        columns: dict[int, Any] = {}
        by_name = {message.name: message for message in rows.columns}
        slow = None
        for place, column in enumerate(self._settings.output_schema):
            plain = None if column.type.is_array else _as_it_is(by_name[column.name], column.type.kind)
            if plain is None:
                slow = self._decoder.decode(rows) if slow is None else slow
                cells = np.empty(rows.rows, object)
                cells[:] = [row[place] for row in slow]
                plain = pd.Series(cells, dtype=object)
            columns[place] = plain
        return pd.DataFrame(columns)


def _as_it_is(message: ColumnValues, kind: Kind) -> pd.Series[Any] | None:
    """Return a column of numbers without nulls as it came; None for all others."""
    if message.valid or _PLAIN.get(kind, (None, ""))[0] != message.type:
        return None
    return pd.Series(np.frombuffer(message.values, _PLAIN[kind][1]))


def _shipped(name: str) -> str:
    """Return the path of a file that the job carries: Flink puts it into a folder on the path of its Python workers."""
    for folder in sys.path:
        found = Path(folder, name)
        if found.is_file():
            return str(found)
    raise TaskError(f"the model {name} did not arrive with the job")


def _data_type(sql: str) -> DataType:
    if sql.startswith("ARRAY<"):
        return DataTypes.ARRAY(_DATA_TYPES[sql[len("ARRAY<") : -1]])
    return _DATA_TYPES[sql]


def result_columns(inputs: Sequence[str], reserved: Sequence[str], outputs: Sequence[str]) -> tuple[tuple[str, bool], ...]:
    """Return the columns of a result: the reserved ones in the order of the input, an output of the same name in its place,
    then the other outputs.
    """
    kept = [(name, name in outputs) for name in inputs if name in reserved or name in outputs]
    return (*kept, *((name, True) for name in outputs if name not in inputs))
