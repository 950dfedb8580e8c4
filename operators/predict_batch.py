"""Operators that predict the rows of a bounded table with a SavedModel, and their common base."""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from google.protobuf import json_format

from akdl.masking import shown
from akdl.serving.row_predictor import in_both, result_columns
from akdl.storage.files import FileError, is_remote, local_path
from akdl.storage.model_archive import ModelError
from akdl.wire import Serving
from akdl.wire.column_type import Kind
from bridge.errors.flink_errors import readable
from bridge.exceptions import ConfigurationError, SchemaError
from bridge.folders.shipped import runs_elsewhere
from bridge.interrupts import elsewhere
from bridge.schema import Schema, table_columns
from bridge.serving.model_process import ModelSettings
from bridge.settings import UserFile
from bridge.table_env import planning
from operators.alink.ak_file import is_ak_file, read_rows, read_schema
from operators.base.job import environment_of, parallelism_of, schema_of
from operators.base.operator import Operator
from operators.batch_operator import BatchOperator
from operators.params.accessors import PredictParams, SavedModelPredictParams
from operators.params.checks import read_time
from operators.params.param import WithParams
from operators.prepare.fetched_file import fetched
from operators.prepare.model_file import packed_model, packed_rows, placed_model
from operators.prepare.plan import MODEL_SCHEMA
from operators.prepare.python_env import find_python
from operators.prepare.requirements import Wanted
from operators.progress.state import Shown

if TYPE_CHECKING:
    from bridge.serving.prediction import PredictionSettings

_ENV_VARIABLE = "TF231_PYTHON_ENV_PATH"


class PredictOp(WithParams, Operator[Any]):
    """Base of the operators that predict rows, in batch and stream."""

    def _predict_with_saved_model(self, data: Operator[Any], models: Operator[Any] | None = None) -> None:
        name, address, is_elsewhere = type(self).__name__, self._values_of_all()["modelPath"], _is_remote(data)
        try:
            path = None if is_remote(address) else local_path(address)
            if path is None or (is_elsewhere and os.path.exists(path)):
                path = packed_model(address)
        except (FileError, ModelError) as error:
            raise ConfigurationError(f"{name}: modelPath: {error}") from None
        if not is_elsewhere and not os.path.exists(path):
            raise ConfigurationError(f"{name}: modelPath: there is no {path}")
        self._predict(data, path, models)

    def _predict(self, data: Operator[Any], model: str, models: Operator[Any] | None = None) -> None:
        """Create this operator's table; `model` is a file that travels or a path on hosts, `models` a stream of newer ones."""
        from bridge.serving.model_delivery import deliver_models
        from bridge.serving.prediction import predict_table

        table = data.getOutputTable()
        table_env = environment_of(table)
        settings = self._settings(data, model, models is not None)
        group = settings.process.group
        self._models = frozenset({group})
        needs = [need for each in (data, models) if each is not None for need in each._groups.values()]
        try:
            self._table = predict_table(table_env, table, settings, data._readable_files())
            if models is not None:
                slots = max([parallelism_of(table_env), *(need.slots for need in needs)])
                self._table = deliver_models(table_env, self._table, models.getOutputTable(), settings, slots)
        except Exception as error:
            raise readable(error) from None
        self._show({group: Shown(type(self).__name__, predicts=True, visible=self._values_of_all()["progress"])})
        self._include(data, *([] if models is None else [models]))
        self._fix()

    def _settings(self, data: Operator[Any], model: str, has_models: bool) -> PredictionSettings:
        from bridge.flink.arrow_operators import Gathering
        from bridge.serving.prediction import PredictionSettings

        name, values, columns = type(self).__name__, self._values_of_all(), data.getColNames()
        self._check_known("selectedCols", values["selectedCols"], columns)
        self._check_known("reservedCols", values["reservedCols"], columns)
        selected = columns if values["selectedCols"] is None else values["selectedCols"]
        reserved = columns if values["reservedCols"] is None else values["reservedCols"]
        selection = data if selected == columns else data.select(selected)
        try:
            input_schema = schema_of(name, selection.getOutputTable())
        except SchemaError as error:
            raise SchemaError(f"{error}; select the columns that feed the model with selectedCols") from None
        output_schema = Schema.parse(values["outputSchemaStr"])
        for column in output_schema:
            if column.type.kind is Kind.TIMESTAMP_LTZ:
                raise ConfigurationError(
                    f"{name}: outputSchemaStr: column {column.name!r} is TIMESTAMP_LTZ: use TIMESTAMP or BIGINT"
                )
        self._check_known("defaults", list(json.loads(values["defaults"])), selected)
        self._paired("inputSignatureDefs", values.get("inputSignatureDefs"), "selectedCols", selected)
        self._paired("outputSignatureDefs", values.get("outputSignatureDefs"), "outputSchemaStr", output_schema.names)
        doubled = in_both(values["reservedCols"], output_schema.names)
        if doubled:
            raise ConfigurationError(f"{name}: {doubled}")
        placed = result_columns(columns, reserved, output_schema.names)
        result, error_column = tuple((column, place is None) for column, place in placed), values["errorCol"]
        if error_column in [column for column, _ in result]:
            raise ConfigurationError(f"{name}: errorCol {error_column!r} is also another column of the result: rename it")
        process = self._process(input_schema, output_schema, _is_remote(data), restarts=not has_models)
        gathering = Gathering()
        if "chunkWait" in values:
            gathering = Gathering(rows=values["chunkRows"], wait_s=values["chunkWait"])
        source = placed_model(model) if _is_remote(data) else None
        return PredictionSettings(process, model, input_schema, output_schema, result, error_column, gathering, source)

    def _process(self, inputs: Schema, outputs: Schema, elsewhere: bool, restarts: bool = True) -> ModelSettings:
        name, values = type(self).__name__, self._values_of_all()
        infer_timeout_s = values["stallTimeout"] if values["inferTimeout"] is None else values["inferTimeout"]
        serving, files, own = self._served()
        serving.MergeFrom(
            Serving(
                input_columns=table_columns(inputs),
                output_columns=table_columns(outputs),
                batch_size=values["inferBatchSize"],
                batch_bytes=values["inferBatchBytes"],
                infer_timeout_s=infer_timeout_s,
                defaults=values["defaults"],
            )
        )
        python = values["pythonEnv"] or own or os.environ.get(_ENV_VARIABLE, "")
        return ModelSettings(
            operator=name,
            group=re.sub(r"\W", "_", f"{name}_{secrets.token_hex(4)}"),
            serving=json_format.MessageToJson(serving),
            token=secrets.token_hex(16),
            python=find_python(name, python, elsewhere, no_tensorflow=bool(files)),
            env_vars=tuple(values["envVars"]),
            user_files=files,
            intra_op_parallelism=values.get("intraOpParallelism"),
            start_timeout_s=values["startTimeout"],
            stall_timeout_s=values["stallTimeout"],
            infer_timeout_s=infer_timeout_s,
            gpus=values["gpusPerModel"],
            restarts=restarts,
        )

    def _served(self) -> tuple[Serving, tuple[UserFile, ...], Wanted | None]:
        """Settings of the model or function, files of the user, and requirements in them."""
        values = self._values_of_all()
        serving = Serving(
            tag=values["graphDefTag"],
            signature=values["signatureDefKey"],
            input_keys=values["inputSignatureDefs"] or [],
            output_keys=values["outputSignatureDefs"] or [],
            cells_hold_batches=values["cellsHoldBatches"],
            intra_op_parallelism=values["intraOpParallelism"] or 0,
            **_newer_models(type(self).__name__, values),
        )
        return serving, (), None

    def _paired(self, parameter: str, keys: list[str] | None, other: str, names: list[str]) -> None:
        if keys is not None and len(keys) != len(names):
            raise ConfigurationError(
                f"{type(self).__name__}: {parameter}: expected {len(names)} names for the columns of {other} "
                f"({', '.join(names)}), got {len(keys)}"
            )

    def _check_model_table(self, model: Any, what: str) -> None:
        names = [name.lower() for name in model.getColNames()]
        if names != MODEL_SCHEMA.names:
            raise ConfigurationError(
                f"{type(self).__name__}: {what}: expected a model table with the columns {', '.join(MODEL_SCHEMA.names)}, "
                f"got {', '.join(names)}"
            )


class TableModelPredictBatchOp(PredictOp, BatchOperator):
    """Base of the batch operators that predict with a model table."""

    def linkFrom(self, *ops: BatchOperator) -> BatchOperator:
        """Predict the rows of the second table with the model in the first."""
        model, data = self._inputs(ops, "a model table and the table to predict", 2, 2)
        self._check_model_table(model, "the first input")
        self._values_of_all()  # raises errors before the model is trained
        return self._predict_with(pack_model_table(model), data)

    def _predict_with(self, model: str, data: BatchOperator) -> BatchOperator:
        self._predict(data, model)
        return self


class TFTableModelPredictBatchOp(PredictParams, TableModelPredictBatchOp):
    """Predicts with a model table: `linkFrom(model, data)`.

    Cells have no batch dimension: a number feeds an input of shape [batch], an array one of shape [batch, ...]. Numbers are
    converted to the dtype of the input. Outputs become the columns of `outputSchemaStr`. The job that computes the model runs
    when this operator is linked, once for all operators that use the model.

    Example:
        predict = TFTableModelPredictBatchOp(outputSchemaStr="logits DOUBLE", selectedCols=["x0", "x1"])
        predictions = predict.linkFrom(model, data)

    Raises:
        ConfigurationError: A parameter is wrong, or the first input is not a model table.
        RowError: A row cannot be predicted and `errorCol` is not set; raised by the call that runs the job.
    """


class TFSavedModelPredictBatchOp(SavedModelPredictParams, PredictOp, BatchOperator):
    """Predicts with a SavedModel: a folder, or a zip or tar file, at any address.

    A model that this program can read is shipped with the job; other paths refer to the hosts. Rows, shapes, dtypes and errors
    are the same as in `TFTableModelPredictBatchOp`.

    Example:
        predict = TFSavedModelPredictBatchOp(modelPath="model.zip", outputSchemaStr="logits DOUBLE", selectedCols=["x0", "x1"])
        predictions = data.link(predict)
    """

    def linkFrom(self, *ops: BatchOperator) -> BatchOperator:
        """Predict the rows of a table."""
        self._predict_with_saved_model(*self._inputs(ops, "one BatchOperator"))
        return self


def _newer_models(operator: str, values: dict[str, Any]) -> dict[str, Any]:
    folder = values.get("modelStreamFilePath")
    if folder is None:
        return {}
    if "://" in folder and not folder.startswith("file://"):
        raise ConfigurationError(
            f"{operator}: modelStreamFilePath {shown(folder)!r}: expected a path that all hosts can read; other addresses "
            "are not supported"
        )
    start = values["modelStreamStartTime"]
    start_s = time.time() if start is None else read_time(start).timestamp()
    return {
        "model_folder": os.path.abspath(folder.removeprefix("file://")),
        "scan_interval_s": values["modelStreamScanInterval"],
        "models_from_ms": int(start_s * 1000),
    }


def _is_remote(op: Operator[Any]) -> bool:
    return runs_elsewhere(environment_of(op.getOutputTable()))


def pack_model_table(model: BatchOperator) -> str:
    """Run the job of a model table, once, and pack its SavedModel in a file that can be shipped with jobs."""
    if model._packed is None:
        try:
            if BatchOperator._deferred:  # a sink may wait for this very model, which must not be trained twice
                received = _ModelReceiver()
                model._defer(received)
                BatchOperator.execute()
                BatchOperator._has_run = True
                model._packed = packed_rows(received.rows, model._model_dir)
            else:
                model._packed = model._run(lambda: packed_rows(_rows(model), model._model_dir))
        except ModelError as error:
            raise ConfigurationError(f"model table of {type(model).__name__}: {error}") from None
    return model._packed


def packed_address(operator: str, address: str) -> str:
    """Pack the SavedModel at an operator's `modelFilePath`, or the model table in an .ak file, for shipping with jobs."""
    try:
        with fetched(operator, "modelFilePath", address) as path:
            return packed_rows(_model_rows(path)) if is_ak_file(path) else packed_model(path)
    except (FileError, ModelError) as error:
        raise ConfigurationError(f"{operator}: modelFilePath: {error}") from None


def _model_rows(path: str) -> Iterator[tuple[int, str]]:
    names = read_schema(path).names
    if names[:2] != ["model_id", "model_info"]:
        raise ModelError(f"{path}: expected a model table with the columns model_id, model_info, got {', '.join(names)}")
    for row in read_rows(path):
        yield row[0], row[1]


class _ModelReceiver:
    def __init__(self) -> None:
        self.rows: list[tuple[int, str]] = []

    def take(self, batch: pa.RecordBatch) -> None:
        self.rows.extend(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist()))

    def finish(self) -> None: ...
    def abandon(self) -> None:
        self.rows.clear()


def _rows(model: BatchOperator) -> Iterator[tuple[int, str]]:
    with ExitStack() as stack:
        with planning():
            rows = stack.enter_context(model.getOutputTable().execute().collect())  # leaving it cancels the job
        thread = stack.enter_context(elsewhere())
        for row in thread.elements(lambda: next(rows, None)):
            yield row[0], row[1]
