"""Operators that predict the rows of a bounded table with a model of any kind, and their common
base.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format

from akdl.serving.kinds.model_file import missing_package, missing_trust
from akdl.serving.output_cells import result_columns
from akdl.storage.files import FileError, checked_place, is_registered, place_of
from akdl.storage.model_forms import ModelError, kind_at
from akdl.wire import Serving
from akdl.wire.column_type import Kind
from bridge.exceptions import ConfigurationError, SchemaError, refused_at
from bridge.host.shipped import runs_elsewhere
from bridge.interrupts import elsewhere
from bridge.schema import Schema, quoted
from bridge.serving.model_process import ModelSettings
from bridge.settings import Gathering, UserFile
from bridge.table_env import is_streaming, parallelism_of, planning
from operators.base.job import schema_of
from operators.base.operator import Operator
from operators.batch_operator import BatchOperator
from operators.errors.flink_errors import readable
from operators.flink.slots import check_scheduler
from operators.params.accessors import AnyPredictParams, PredictParams, SavedModelPredictParams
from operators.params.function_script import FunctionScript
from operators.params.param import WithParams
from operators.params.prediction_settings import (
    check_key,
    columns_of_result,
    fed_columns,
    predicted_schema,
    serving_of,
)
from operators.prepare.main_script import check_defines
from operators.prepare.model_file import (
    content_of,
    model_for_job,
    packed_rows,
    placed_model,
    refuse_other_models,
)
from operators.prepare.plan import MODEL_SCHEMA
from operators.prepare.python_env import find_python
from operators.prepare.requirements import Wanted, wanted_in
from operators.prepare.user_files import read_files
from operators.progress.state import Shown

if TYPE_CHECKING:
    from bridge.serving.outputs import PredictionSettings
    from bridge.serving.resumption import Resumption

# Alink has this variable for the environment of TensorFlow 2.
_ENV_VARIABLE = "TF231_PYTHON_ENV_PATH"
# Settings that don't change a result, so a run may continue with other ones.
_WITHOUT_EFFECT = (
    "inferBatchBytes",
    "inferBatchSize",
    "inferTimeout",
    "intraOpParallelism",
    "modelCacheBytes",
    "trusted",
)


class PredictOp(WithParams, Operator[Any]):
    """Base of the operators that predict rows, in batch and stream.

    All kinds of models take this path: the settings, the graph and the model process are the same.
    """

    def _predict_at_path(self, data: Operator[Any], models: Operator[Any] | None = None) -> None:
        values = self._values_of_all()
        address = values["modelPath"]
        has_keys = values["modelKeyCol"] is not None
        is_function = values.get("predictFn") is not None
        if has_keys and models is not None:
            raise ConfigurationError(
                f"{self._name}: modelKeyCol chooses among the models of modelPath: expected no"
                " stream of models"
            )
        if address is not None:
            model = model_for_job(
                f"{self._name}: modelPath", address, _is_remote(data), has_keys or is_function
            )
        else:
            model = ""
            others = ("modelKeyCol", "candidatePath", "modelStreamFilePath")
            named = next(
                (each for each in others if values.get(each)),
                "a stream of models" if models else "",
            )
            if named or not is_function:
                raise ConfigurationError(
                    f"{self._name}:"
                    f" {f'{named} needs modelPath' if named else 'set modelPath or predictFn'}"
                )
        self._predict(data, model, models)

    def _predict(
        self, data: Operator[Any], model: str, models: Operator[Any] | None = None
    ) -> None:
        """Create this operator's table; `model` is a file that travels or a path on hosts, `models`
        a stream of newer ones.
        """
        from bridge.serving.model_delivery import deliver_models
        from bridge.serving.prediction import predict_table

        table = data.getOutputTable()
        table_env = data._table_env
        settings = self._settings(data, model, models is not None)
        group = settings.process.group
        self._models = frozenset(settings.process.groups)
        inputs = [data] if models is None else [data, models]
        try:
            # With `resumeDir`, rows that an earlier run has predicted are split off first. The
            # others come from a join then, so files cannot be read in place of rows.
            known = None
            files = data._readable_files()
            if settings.resumption is not None:
                known, table = settings.resumption.split(table_env, table, settings.columns, group)
            self._table = predict_table(
                table_env, table, settings, files if known is None else None
            )
            if known is not None:
                self._table = known.union_all(self._table)
            if models is not None:
                check_scheduler(table_env.get_config(), self._name)
                # Models have to reach each host of the job, so the branch that delivers them needs
                # a subtask in each slot. Operators share slots, so the job has as many as the
                # largest of its needs.
                needs = (need.slots for each in inputs for need in each._groups.values())
                slots = max([parallelism_of(table_env), *needs])
                self._table = deliver_models(
                    table_env, self._table, models.getOutputTable(), settings, slots
                )
        except Exception as error:
            raise readable(error) from None
        shown = Shown(
            self._name,
            predicts=True,
            visible=self._values_of_all()["progress"],
            start_timeout_s=settings.process.start_timeout_s,
        )
        self._show({group: shown})
        self._include(*inputs)
        self._fix()

    def _settings(self, data: Operator[Any], model: str, has_models: bool) -> PredictionSettings:
        """Settings of a prediction, checked against the columns of the input."""
        from bridge.serving.outputs import PredictionSettings

        name = self._name
        values = self._values_of_all()
        columns = data.getColNames()
        fed = fed_columns(self, columns)
        try:
            input_schema = schema_of(
                name, (data if fed == columns else data.select(fed)).getOutputTable()
            )
        except SchemaError as error:
            raise SchemaError(
                f"{error}; select the columns that feed the model with selectedCols"
            ) from None
        own = Schema.parse(values["outputSchemaStr"])
        for column in own:
            if column.type.kind is Kind.TIMESTAMP_LTZ:
                raise ConfigurationError(
                    f"{name}: outputSchemaStr: column {column.name!r} is TIMESTAMP_LTZ: use"
                    " TIMESTAMP or BIGINT"
                )
        process, serving = self._process(
            input_schema, model, _is_remote(data), restarts=not has_models
        )
        if serving.candidate_path:
            if serving.model_key_col or has_models or serving.model_stream_file_path:
                raise ConfigurationError(
                    f"{name}: candidatePath: expected no other models next to it"
                )
            if not serving.function:
                refuse_other_models(
                    f"{name}: candidatePath", serving.candidate_path, _is_remote(data)
                )
        for added in result_columns(serving)[len(own.names) :]:
            if added.name in {*columns, *own.names}:
                parameter = "modelCol" if added.name == serving.model_col else "candidatePath"
                raise ConfigurationError(
                    f"{name}: {parameter} {added.name!r} is also another column: rename it"
                )
        output_schema = predicted_schema(serving)
        result = tuple(columns_of_result(self, columns, output_schema.names))
        error_column = values["errorCol"]
        if error_column in [column for column, _ in result]:
            raise ConfigurationError(
                f"{name}: errorCol {error_column!r} is also another column of the result: rename it"
            )
        gathering = Gathering()
        if "chunkWait" in values:
            gathering = Gathering(rows=values["chunkRows"], wait_s=values["chunkWait"])
        source = placed_model(model) if _is_remote(data) else None
        settings = PredictionSettings(
            process, model, input_schema, output_schema, result, error_column, gathering, source
        )
        if values.get("resumeDir") is not None:
            settings = replace(settings, resumption=self._resumption(data, settings))
        return settings

    def _resumption(
        self, data: Operator[BatchOperator], settings: PredictionSettings
    ) -> Resumption:
        """Settings of a prediction that continues from the files of an earlier run."""
        from bridge.serving.resumption import Resumption

        name = self._name
        values = self._values_of_all()
        id_column = values["idCol"]
        if id_column is None or is_streaming(data._table_env):
            raise ConfigurationError(
                f"{name}: resumeDir needs idCol, a column whose values tell rows apart, and a"
                " batch job"
            )
        if is_registered(settings.model) and not settings.model.rpartition("/")[2].isdigit():
            raise ConfigurationError(
                f"{name}: resumeDir needs the number of a version, as in models:/NAME/3, because"
                f" {settings.model} may be another model in the next run"
            )
        self._check_known("idCol", [id_column], data.getColNames())
        (column,) = schema_of(name, data.select([id_column]).getOutputTable()).all_nullable
        check_key(name, "idCol", [column])
        others = (
            ()
            if settings.error_column is None
            else Schema.parse(f"{quoted(settings.error_column)} STRING")
        )
        serving = {
            name: value
            for name, value in json.loads(settings.process.serving).items()
            if name not in _WITHOUT_EFFECT
        }
        # The name of a large file, which is shipped, has the checksum of its content.
        sources = {
            file.path: os.path.basename(file.shipped) or hashlib.sha256(file.content).hexdigest()
            for file in settings.process.user_files
        }
        models = [settings.model, serving.get("candidatePath", "")]
        model = json.dumps([serving, sources, [content_of(each) for each in models if each]])
        schema = Schema((column, *settings.output_schema, *others))
        with refused_at(f"{name}: resumeDir", FileError):
            place = place_of(values["resumeDir"])
        return Resumption(name, place, schema, model)

    def _process(
        self, inputs: Schema, model: str, elsewhere: bool, restarts: bool = True
    ) -> tuple[ModelSettings, Serving]:
        """Settings of the process of a model, and of the prediction in it."""
        name = self._name
        values = self._values_of_all()
        serving = serving_of(self, inputs)
        if values["inferTimeout"] is None:
            serving.infer_timeout = values["stallTimeout"]
        files, own = self._complete(serving)
        if values["inferProcesses"] > 1 and (not restarts or serving.model_stream_file_path):
            raise ConfigurationError(
                f"{name}: inferProcesses: another model takes over in one process only: leave it"
                " at 1"
            )
        python = values["pythonEnv"] or own or os.environ.get(_ENV_VARIABLE, "")
        # A function loads its model itself, so the kind of its files says nothing about the
        # packages that it needs.
        kind = "" if files else kind_at(model)
        candidate = serving.candidate_path
        other = kind_at(candidate) if candidate and not files else ""
        for parameter, place, each in (
            ("modelPath", model, kind),
            ("candidatePath", candidate, other),
        ):
            if missing := missing_trust(each, serving):
                raise ConfigurationError(f"{name}: {parameter}: {place}: {missing}")
        if not (python or elsewhere) and (missing := missing_package(kind)):
            raise ConfigurationError(f"{name}: modelPath: {missing}")
        settings = ModelSettings(
            operator=name,
            # The group is part of the names of folders and views, so it has only letters, digits
            # and underscores.
            group=re.sub(r"\W", "_", f"{name}_{secrets.token_hex(4)}"),
            serving=json_format.MessageToJson(serving),
            # Each call of a task carries this token, so other users of the host cannot use the
            # process.
            token=secrets.token_hex(16),
            python=find_python(name, python, elsewhere),
            env_vars=tuple(values["envVars"]),
            user_files=files,
            start_timeout_s=values["startTimeout"],
            stall_timeout_s=values["stallTimeout"],
            gpus=values["gpusPerModel"],
            copies=values["inferProcesses"],
            restarts=restarts,
        )
        return settings, serving

    def _complete(self, serving: Serving) -> tuple[tuple[UserFile, ...], Wanted | None]:
        """Add to the settings what is not the value of a parameter; return the user's files, and
        requirements in them.
        """
        name = self._name
        values = self._values_of_all()
        if serving.candidate_path:
            with refused_at(f"{name}: candidatePath", FileError):
                serving.candidate_path = checked_place(serving.candidate_path)
        given = values.get("predictFn")
        if given is None:
            return (), None
        script: str | FunctionScript
        script, function = (
            (given, given.name) if isinstance(given, FunctionScript) else given.rsplit(":", 1)
        )
        files, path = read_files(name, values["userFiles"], script, "predictFn")
        source = next(file.content for file in files if file.path == path)
        if isinstance(script, str):
            check_defines(name, script, source, function)
        with refused_at(f"{name}: predictFn", ConfigurationError):
            wanted = wanted_in(source)
        serving.function = f"{path}:{function}"
        return files, wanted

    def _check_model_table(self, model: Any, what: str) -> None:
        """Refuse a table without the two columns of a model table. Case does not count."""
        if self._values.get("modelKeyCol") is not None:
            raise ConfigurationError(
                f"{self._name}: modelKeyCol chooses among models in a folder, and {what}"
                " is one model: use a TFSavedModel operator with modelPath"
            )
        names = [name.lower() for name in model.getColNames()]
        if names != MODEL_SCHEMA.names:
            raise ConfigurationError(
                f"{self._name}: {what}: expected a model table with the columns"
                f" {', '.join(MODEL_SCHEMA.names)}, got {', '.join(names)}"
            )


class TableModelPredictBatchOp(PredictOp, BatchOperator):
    """Base of the batch operators that predict with a model table."""

    def linkFrom(self, *ops: BatchOperator) -> BatchOperator:
        """Predict the rows of the second table with the model in the first."""
        model, data = self._inputs(ops, "a model table and the table to predict", 2, 2)
        self._check_model_table(model, "the first input")
        # Errors in parameters are raised here, before the model is trained.
        self._values_of_all()
        return self._predict_with(pack_model_table(model), data)

    def _predict_with(self, model: str, data: BatchOperator) -> BatchOperator:
        self._predict(data, model)
        return self


class TFTableModelPredictBatchOp(PredictParams, TableModelPredictBatchOp):
    """Predicts with a model table: `linkFrom(model, data)`.

    Cells have no batch dimension: a number feeds an input of shape [batch], an array one of shape
    [batch, ...]. Numbers are converted to the dtype of the input. Outputs become the columns of
    `outputSchemaStr`. The job that computes the model runs when this operator is linked, once for
    all operators that use the model.

    Example:
        predict = TFTableModelPredictBatchOp(
            outputSchemaStr="logits DOUBLE", selectedCols=["x0", "x1"]
        )
        predictions = predict.linkFrom(model, data)

    Raises:
        ConfigurationError: A parameter is wrong, or the first input is not a model table.
        RowError: A row cannot be predicted and `errorCol` is not set; raised by the call that runs
            the job.
    """


class PredictBatchOp(AnyPredictParams, PredictOp, BatchOperator):
    """Predicts with a model of any kind: `modelPath`, or a function, `predictFn`, in any framework
    or in plain numpy.

    The kind is that of the folder or file at `modelPath`: a SavedModel, a `.keras`, `.onnx` or
    `.pt2` file, TorchScript in a `.pt` file, or a model of MLflow, also in a registry. The Python
    that predicts needs the framework: the extra `tf`, `keras`, `onnxruntime`, `torch` or `mlflow`
    of akdl.

    `predictFn` names a function that is called once for each model in the process that predicts on
    each host, and returns `predict(batch)`. With `modelPath`, its first argument is the path of the
    model there, and newer models and models of keys are further calls. `predict` takes a dict of
    numpy arrays, one for each of `selectedCols`, and returns a dict with an array for each column
    of `outputSchemaStr`; rows are on the first axis of all. It is never called twice at the same
    time. A batch that it rejects with an exception is halved until the rows at fault are found.

    Example:
        predict = PredictBatchOp(
            modelPath="model.zip", outputSchemaStr="logits DOUBLE", selectedCols=["x0", "x1"]
        )
        predictions = data.link(predict)
        # score.py has: def load(): return lambda batch: {"y": 2 * batch["x0"]}
        scores = data.link(
            PredictBatchOp(
                predictFn="score.py:load", selectedCols=["x0"], outputSchemaStr="y FLOAT"
            )
        )

    Raises:
        ConfigurationError: A parameter is wrong, there is no model, or the file does not define the
            function.
        RowError: A row cannot be predicted and `errorCol` is not set; raised by the call that runs
            the job.
        TaskError: The model or function cannot be loaded, or does not return such arrays; raised by
            that call too.
    """

    def linkFrom(self, *ops: BatchOperator) -> BatchOperator:
        """Predict the rows of a table."""
        self._predict_at_path(*self._inputs(ops, "one BatchOperator"))
        return self


class TFSavedModelPredictBatchOp(SavedModelPredictParams, PredictBatchOp):
    """Predicts with a SavedModel: a folder, a zip or tar file, or a model table in an .ak file, at
    any address.

    A model that this program can read is shipped with the job; other paths refer to the hosts.
    Rows, shapes, dtypes and errors are the same as in `TFTableModelPredictBatchOp`.

    Example:
        predict = TFSavedModelPredictBatchOp(
            modelPath="model.zip", outputSchemaStr="logits DOUBLE", selectedCols=["x0", "x1"]
        )
        predictions = data.link(predict)
    """


def _is_remote(op: Operator[Any]) -> bool:
    return runs_elsewhere(op._table_env)


def pack_model_table(model: BatchOperator) -> str:
    """Run the job of a model table, once, and pack its SavedModel in a file that can be shipped
    with jobs.
    """
    if model._packed is None:
        with refused_at(f"model table of {type(model).__name__}", ModelError):
            # A deferred sink may wait for this very model. The joint job that `collectToArrow` runs
            # trains it once for both.
            if BatchOperator._deferred:
                numbers, texts = (
                    column.to_pylist() for column in model.collectToArrow().columns[:2]
                )
                model._packed = packed_rows(zip(numbers, texts), model._model_dir)
            else:
                model._packed = model._run(lambda: packed_rows(_rows(model), model._model_dir))
    return model._packed


def _rows(model: BatchOperator) -> Iterator[tuple[int, str]]:
    with ExitStack() as stack:
        with planning():
            # Leaving this context cancels the job, also after an interrupt.
            rows = stack.enter_context(model.getOutputTable().execute().collect())
        thread = stack.enter_context(elsewhere())
        for row in thread.elements(lambda: next(rows, None)):
            yield row[0], row[1]
