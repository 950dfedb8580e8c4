"""Operators that predict with a function of the user."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from akdl.storage.files import FileError, is_remote, local_path
from akdl.wire import Serving
from bridge.exceptions import ConfigurationError, refused_at
from bridge.schema import Schema
from bridge.settings import UserFile
from operators.batch_operator import BatchOperator
from operators.flink.env import prepare_for_stream
from operators.params.accessors import FunctionPredictParams, FunctionPredictStreamParams
from operators.params.function_script import FunctionScript
from operators.predict_batch import PredictOp, TFSavedModelPredictBatchOp
from operators.prepare.main_script import check_defines
from operators.prepare.model_file import refuse_other_models
from operators.prepare.requirements import Wanted, wanted_in
from operators.prepare.user_files import read_files
from operators.stream_operator import StreamOperator

if TYPE_CHECKING:
    from bridge.serving.outputs import PredictionSettings


class _FunctionOp(PredictOp):
    def _complete(self, serving: Serving) -> tuple[tuple[UserFile, ...], Wanted | None]:
        name, values = type(self).__name__, self._values_of_all()
        given = values["predictFn"]
        script: str | FunctionScript
        script, function = (given, given.name) if isinstance(given, FunctionScript) else given.rsplit(":", 1)
        files, path = read_files(name, values["userFiles"], script, "predictFn")
        source = next(file.content for file in files if file.path == path)
        if isinstance(script, str):
            check_defines(name, script, source, function)
        with refused_at(f"{name}: predictFn", ConfigurationError):
            wanted = wanted_in(source)
        serving.function = f"{path}:{function}"
        return files, wanted


class PredictBatchOp(FunctionPredictParams, _FunctionOp, BatchOperator):
    """Predicts with a function of Python, in any framework or in plain numpy.

    `predictFn` names a function that is called once in the process that predicts on each host, and returns `predict(batch)`.
    `predict` takes a dict of numpy arrays, one for each of `selectedCols`, and returns a dict with an array for each column of
    `outputSchemaStr`; rows are on the first axis of all. It is never called twice at the same time. A batch that it rejects
    with an exception is halved until the rows at fault are found.

    Example:
        # score.py has: def load(): return lambda batch: {"y": 2 * batch["x0"]}
        score = PredictBatchOp(predictFn="score.py:load", selectedCols=["x0"], outputSchemaStr="y FLOAT")
        scored = data.link(score)

    Raises:
        ConfigurationError: A parameter is wrong, or the file does not define the function.
        RowError: A row cannot be predicted and `errorCol` is not set; raised by the call that runs the job.
        TaskError: The function cannot be loaded, or returns something other than such arrays; raised by that call too.
    """

    def linkFrom(self, *ops: BatchOperator) -> BatchOperator:
        """Predict the rows of a table."""
        (data,) = self._inputs(ops, "one BatchOperator")
        self._predict(data, "")
        return self


class PredictStreamOp(FunctionPredictStreamParams, _FunctionOp, StreamOperator):
    """Predicts a stream with a function, which is the same as for `PredictBatchOp`.

    A row waits at most `chunkWait` seconds for its batch.

    Example:
        score = PredictStreamOp(predictFn="score.py:load", selectedCols=["x0"], outputSchemaStr="y FLOAT")
        scored = stream.link(score)
    """

    def linkFrom(self, *ops: StreamOperator) -> StreamOperator:
        """Predict the rows of a stream."""
        (data,), values = self._inputs(ops, "one StreamOperator"), self._values_of_all()
        prepare_for_stream(data._table_env, values["chunkWait"])
        self._predict(data, "")
        return self


def function_settings(
    name: str,
    model: str | Callable[..., object],
    inputs: str,
    outputs: str,
    params: Mapping[str, object],
    is_host: bool = False,
) -> PredictionSettings:
    """Settings of a function of SQL that predicts. The result has the outputs, and then the column of errors.

    Where this `is_host`, the path of a model has to exist; elsewhere only the hosts may have it.
    """
    from bridge.serving.outputs import PredictionSettings

    if params.keys() & {"selectedCols", "reservedCols"}:
        raise ConfigurationError(f"{name}: expected no selectedCols or reservedCols: the inputs are the arguments")
    if unknown := params.keys() & {"modelCol", "candidatePath", "resumeDir", "idCol", "inferProcesses"}:
        raise ConfigurationError(f"{name}: {min(unknown)!r} is a parameter of operators alone")
    is_function = callable(model) or re.search(r"\.py:\w+$", model)
    make: Callable[..., PredictOp] = PredictBatchOp if is_function else TFSavedModelPredictBatchOp
    op = make(**{"predictFn" if is_function else "modelPath": model}, outputSchemaStr=outputs, **params)
    with refused_at(name, FileError):
        path = "" if is_function else str(model) if is_remote(str(model)) else local_path(str(model))
    if path and not params.get("modelKeyCol"):
        refuse_other_models(name, "the model", path, not is_host)
    arguments, results = Schema.parse(inputs), Schema.parse(outputs)
    process = replace(op._process(arguments, elsewhere=False)[0], operator=name)
    if any(file.shipped for file in process.user_files):
        raise ConfigurationError(
            f"{name}: userFiles of more than 1 MB do not travel with a function: name a path in userParams"
        )
    error_column: str | None = op._values_of_all()["errorCol"]
    names = results.names if error_column is None else [*results.names, error_column]
    return PredictionSettings(process, path, arguments, results, tuple((each, True) for each in names), error_column)
