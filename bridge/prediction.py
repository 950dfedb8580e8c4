"""The Flink graph of a predictor: a vectorized function over the columns that feed the model; others stay in the JVM."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pyflink.table import DataTypes, StreamTableEnvironment, Table
from pyflink.table.types import DataType
from pyflink.table.udf import ScalarFunction, udf

from akdl.wire import FLOAT32, FLOAT64, INT64, ColumnValues, Prediction, Rows
from bridge.carried import arrived, carry, carry_own_packages
from bridge.column_values import ColumnEncoder
from bridge.decoder import RowDecoder
from bridge.exceptions import RowError
from bridge.model_process import ModelProcess, ModelSettings
from bridge.schema import Kind, Schema, quoted
from bridge.settings import PythonArchive

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
        model: A file that travels with the job, see `bridge.carried`, or the path of the model on every host.
        input_schema: The columns that feed the model, in order.
        output_schema: The result columns.
        result: Every column of the result: its name, and whether it is an output rather than an input that stays.
        error_column: Name of a column for what is wrong with a row; None to fail the job at the first such row.
    """

    process: ModelSettings
    model: str
    input_schema: Schema
    output_schema: Schema
    result: tuple[tuple[str, bool], ...]
    error_column: str | None = None


def predict_table(table_env: StreamTableEnvironment, table: Table, settings: PredictionSettings) -> Table:
    """Return the table with the model's outputs."""
    carry_own_packages(table_env)
    if os.path.isfile(settings.model):
        carry(table_env, settings.model)
    if isinstance(settings.process.python, PythonArchive):
        carry(table_env, settings.process.python.path)
    group, decoder = settings.process.group, RowDecoder(settings.output_schema, "the model")
    has_errors = settings.error_column is not None
    transport_types = [*decoder.transport_types, *(["STRING"] if has_errors else [])]
    fields = [DataTypes.FIELD(f"o{place}", _data_type(sql)) for place, sql in enumerate(transport_types)]
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
        + ([f"p.o{len(names)} AS akdl_error"] if has_errors else [])
    )
    table_env.create_temporary_view(f"{predicted}_calls", calls)
    table_env.create_temporary_view(predicted, table_env.sql_query(f"SELECT {flat} FROM {predicted}_calls"))
    casts = dict(zip(names, decoder.casts))
    columns = [
        casts[name] if is_output else f"akdl_r{stays.index(name)} AS {quoted(name)}" for name, is_output in settings.result
    ]
    if settings.error_column is not None:
        columns.append(f"akdl_error AS {quoted(settings.error_column)}")
    return table_env.sql_query(f"SELECT {', '.join(columns)} FROM {predicted}")


def model_process(settings: PredictionSettings) -> ModelProcess:
    """Return a task's hold on the process with the model on its host, which is started if need be.

    Raises:
        TaskError: See `ModelProcess`.
    """
    return ModelProcess(settings.process, arrived(settings.model))


class _Predict(ScalarFunction):  # type: ignore[misc]
    """Columns to ROW(outputs...), and what is wrong with the row where a column is named for that."""

    def __init__(self, settings: PredictionSettings) -> None:
        self._settings = settings

    def open(self, function_context: Any) -> None:
        settings = self._settings
        self._encoder = ColumnEncoder(settings.input_schema)
        self._decoder = RowDecoder(settings.output_schema, "the model")
        self._process = model_process(settings)

    def close(self) -> None:
        if hasattr(self, "_process"):
            self._process.close()

    def is_deterministic(self) -> bool:
        return False  # the planner would call it once for each output

    def eval(self, *series: Any) -> pd.DataFrame:
        size, columns = self._encoder.encode(series)
        prediction = self._process.predict(Rows(rows=size, columns=columns))
        errors = self._errors(prediction, size)
        return pd.DataFrame(dict(enumerate([*self._outputs(prediction.rows), *errors])))

    def _errors(self, prediction: Prediction, size: int) -> list[Any]:
        """Return the column of errors, if there is one."""
        if self._settings.error_column is None:
            if prediction.bad_rows:
                bad = prediction.bad_rows[0]
                raise RowError(
                    f"{self._settings.process.operator}: row {bad.row} of a batch cannot be predicted: {bad.message}; "
                    "errorCol names a column for such messages, if the job should go on"
                )
            return []
        errors = np.full(size, None, object)
        for bad in prediction.bad_rows:
            errors[bad.row] = bad.message
        return [errors]

    def _outputs(self, rows: Rows) -> list[Any]:
        columns = []
        by_name = {message.name: message for message in rows.columns}
        slow = None
        for place, column in enumerate(self._settings.output_schema):
            plain = None if column.type.is_array else _as_it_is(by_name[column.name], column.type.kind)
            if plain is None:
                slow = self._decoder.decode(rows) if slow is None else slow
                cells = np.empty(rows.rows, object)
                cells[:] = slow[place]
                plain = pd.Series(cells, dtype=object)
            columns.append(plain)
        return columns


def _as_it_is(message: ColumnValues, kind: Kind) -> pd.Series[Any] | None:
    """Return a column of numbers without nulls as it came; None for all others."""
    if message.valid or _PLAIN.get(kind, (None, ""))[0] != message.type:
        return None
    return pd.Series(np.frombuffer(message.values, _PLAIN[kind][1]))


def _data_type(sql: str) -> DataType:
    if sql.startswith("ARRAY<"):
        return DataTypes.ARRAY(_DATA_TYPES[sql[len("ARRAY<") : -1]])
    return _DATA_TYPES[sql]
