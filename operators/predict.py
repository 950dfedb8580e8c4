"""Operators that predict the rows of a bounded table with a SavedModel."""

from __future__ import annotations

import atexit
import functools
import os
import re
import secrets
import shutil
import tempfile
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format

from akdl.wire import Serving, TableColumn
from bridge.exceptions import ConfigurationError, SchemaError
from bridge.flink_errors import readable
from bridge.model_process import ModelSettings
from bridge.schema import Kind, Schema
from operators.accessors import PredictParams, SavedModelPredictParams
from operators.model_table import pack_model_table
from operators.operator import BatchOperator, environment_of
from operators.param import WithParams
from operators.plan import MODEL_SCHEMA, find_python

if TYPE_CHECKING:
    from bridge.prediction import PredictionSettings

_ENV_VARIABLE = "TF231_PYTHON_ENV_PATH"


class _PredictBatchOp(WithParams, BatchOperator):
    """Predicts; the kinds differ in where the model comes from."""

    def _predict(self, data: BatchOperator, model: str, is_shipped: bool) -> None:
        """Make this operator's table from that of `data`."""
        from bridge.prediction import predict_table

        table = data.getOutputTable()
        table_env = environment_of(table)
        settings = self._settings(data, os.path.basename(model) if is_shipped else model, is_shipped)
        if is_shipped:
            table_env.add_python_file(os.path.dirname(model))
        try:
            self._table = predict_table(table_env, table, settings)
        except Exception as error:
            raise readable(error) from None
        self._groups = dict(data._groups)
        self._models = data._models | {settings.process.group}
        self._fix()

    def _settings(self, data: BatchOperator, model: str, is_shipped: bool) -> PredictionSettings:
        from bridge.prediction import PredictionSettings, result_columns

        name, values, columns = type(self).__name__, self._values_of_all(), data.getColNames()
        selected = self._known("selectedCols", values["selectedCols"], columns)
        reserved = self._known("reservedCols", values["reservedCols"], columns)
        fed = data if selected == columns else data.select(selected)
        fields = fed.getOutputTable().get_resolved_schema()
        try:
            input_schema = Schema.of_table(fields.get_column_names(), fields.get_column_data_types())
        except SchemaError as error:
            raise SchemaError(f"{name}: {error}; selectedCols chooses the columns that feed the model") from None
        output_schema = Schema.parse(values["outputSchemaStr"])
        for column in output_schema:
            if column.type.kind is Kind.TIMESTAMP_LTZ:
                raise ConfigurationError(
                    f"{name}: outputSchemaStr: {column.name!r} is a TIMESTAMP_LTZ: take TIMESTAMP or BIGINT"
                )
        inputs, outputs = values["inputSignatureDefs"], values["outputSignatureDefs"]
        self._paired("inputSignatureDefs", inputs, "selectedCols", selected)
        self._paired("outputSignatureDefs", outputs, "outputSchemaStr", output_schema.names)
        result, error_column = result_columns(columns, reserved, output_schema.names), values["errorCol"]
        if error_column in [column for column, _ in result]:
            raise ConfigurationError(f"{name}: errorCol {error_column!r} is the name of another column of the result")
        serving = Serving(
            tag=values["graphDefTag"],
            signature=values["signatureDefKey"],
            input_columns=[TableColumn(name=column.name, type=column.type.sql) for column in input_schema],
            input_keys=inputs or [],
            output_columns=[TableColumn(name=column.name, type=column.type.sql) for column in output_schema],
            output_keys=outputs or [],
            batch_dim_in_cell=values["cellsHoldBatches"],
            batch_size=values["inferBatchSize"],
            intra_op_parallelism=values["intraOpParallelism"] or 0,
        )
        process = ModelSettings(
            operator=name,
            group=re.sub(r"\W", "_", f"{name}_{secrets.token_hex(4)}"),
            serving=json_format.MessageToJson(serving),
            token=secrets.token_hex(16),
            python=find_python(name, values["pythonEnv"] or os.environ.get(_ENV_VARIABLE, "")),
            intra_op_parallelism=values["intraOpParallelism"],
            start_timeout_s=values["startTimeout"],
        )
        return PredictionSettings(process, model, is_shipped, input_schema, output_schema, result, error_column)

    def _known(self, parameter: str, names: list[str] | None, columns: list[str]) -> list[str]:
        unknown = [name for name in names or () if name not in columns]
        if unknown:
            raise ConfigurationError(
                f"{type(self).__name__}: parameter {parameter!r} names {', '.join(map(repr, unknown))}; the input has "
                f"{', '.join(map(repr, columns))}"
            )
        return columns if names is None else names

    def _paired(self, parameter: str, keys: list[str] | None, other: str, names: list[str]) -> None:
        if keys is not None and len(keys) != len(names):
            raise ConfigurationError(
                f"{type(self).__name__}: {parameter} has {len(keys)} names for the {len(names)} columns of {other}: "
                f"{', '.join(names)}"
            )

    def _inputs(self, ops: tuple[Any, ...], expected: str, count: int) -> None:
        if len(ops) != count or not all(isinstance(op, BatchOperator) for op in ops):
            got = ", ".join(type(op).__name__ for op in ops) or "none"
            raise ConfigurationError(f"{type(self).__name__}.linkFrom takes {expected}, got {got}")


class TFTableModelPredictBatchOp(PredictParams, _PredictBatchOp):
    """Predicts with a model table: `linkFrom(model, data)`.

    The job of the model's operator runs when this operator is linked, once for all that use the model.
    """

    def linkFrom(self, *ops: BatchOperator) -> BatchOperator:
        """Predict the rows of the second table with the model in the first."""
        self._inputs(ops, "a model table and the table to predict", 2)
        model, data = ops
        names = [name.lower() for name in model.getColNames()]
        if names != MODEL_SCHEMA.names:
            raise ConfigurationError(
                f"{type(self).__name__}: the first input has the columns {', '.join(names)}, but a model table has "
                f"{', '.join(MODEL_SCHEMA.names)}: link the model first, then the data"
            )
        self._values_of_all()  # mistakes come to light before the model is trained
        return self.predict_with(pack_model_table(model, model_folder()), data)

    def predict_with(self, model: str, data: BatchOperator) -> BatchOperator:
        """Predict the rows of a table with the model in a zip file that lies alone in its folder."""
        self._predict(data, model, is_shipped=_is_remote(data))
        return self


class TFSavedModelPredictBatchOp(SavedModelPredictParams, _PredictBatchOp):
    """Predicts with a SavedModel: a folder, or a zip or tar file, that every host can read."""

    def linkFrom(self, *ops: BatchOperator) -> BatchOperator:
        """Predict the rows of a table."""
        self._inputs(ops, "one table", 1)
        path = self._values_of_all()["modelPath"]
        if "://" in path and not path.startswith("file://"):
            raise ConfigurationError(f"{type(self).__name__}: modelPath {path!r}: only paths and file:// are supported so far")
        path = os.path.abspath(path.removeprefix("file://"))
        if not _is_remote(ops[0]) and not os.path.exists(path):
            raise ConfigurationError(f"{type(self).__name__}: modelPath: there is no {path}")
        self._predict(ops[0], path, is_shipped=False)
        return self


def _is_remote(op: BatchOperator) -> bool:
    """Whether a job runs in other programs than this one."""
    config = environment_of(op.getOutputTable()).get_config()
    return bool(config.get("execution.target", "local") != "local")


@functools.cache
def model_folder() -> str:
    """Return the folder of this program for models that wait to be used; it goes when the program ends."""
    folder = tempfile.mkdtemp(prefix="akdl_packed_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
