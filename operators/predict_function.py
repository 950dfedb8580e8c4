"""Settings of models as functions of SQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from akdl.storage.files import FileError, checked_place
from bridge.exceptions import ConfigurationError, refused_at
from bridge.schema import Schema
from operators.predict_batch import PredictBatchOp, PredictOp
from operators.predict_stream import PredictStreamOp
from operators.prepare.model_file import refuse_other_models

if TYPE_CHECKING:
    from bridge.serving.outputs import PredictionSettings


def function_settings(
    name: str,
    model: str | Callable[..., object],
    inputs: str,
    outputs: str,
    params: Mapping[str, object],
    is_host: bool = False,
) -> PredictionSettings:
    """Settings of a function of SQL that predicts. The result has the outputs, and then the column
    of errors.

    With `is_host`, this program predicts itself, so the path of a model has to exist here.
    Otherwise it may exist only on the hosts of the job.
    """
    from bridge.serving.outputs import PredictionSettings

    if declared := params.keys() & {"selectedCols", "reservedCols", "outputSchemaStr"}:
        raise ConfigurationError(
            f"{name}: remove the parameter {min(declared)!r}: the arguments of the function and its"
            " declared output say it"
        )
    if unknown := params.keys() & {
        "modelCol",
        "candidatePath",
        "resumeDir",
        "idCol",
        "inferProcesses",
        "chunkWait",
        "chunkRows",
    }:
        raise ConfigurationError(f"{name}: {min(unknown)!r} is a parameter of operators alone")
    # The form "score.py:load" names a function, and everything else a model.
    is_function = callable(model) or re.search(r"\.py:\w+$", model) is not None
    given = {"predictFn" if is_function else "modelPath": model, **params}
    # A function does not know whether its queries end, so it takes newer models only on request.
    make: type[PredictOp] = PredictStreamOp if "modelStreamFilePath" in params else PredictBatchOp
    # The operator has the name of the function, because its errors show it.
    op = type(name, (make,), {})(outputSchemaStr=outputs, **given)
    place = str(given.get("modelPath") or "")
    with refused_at(name, FileError):
        path = checked_place(place) if place else ""
    if path and not (is_function or params.get("modelKeyCol")):
        refuse_other_models(f"{name}: the model", path, not is_host)
    arguments = Schema.parse(inputs)
    results = Schema.parse(outputs)
    process = replace(op._process(arguments, path, elsewhere=False)[0], operator=name)
    # A large file is not part of the settings but travels through Flink with a job, and a function
    # belongs to no job yet.
    if any(file.shipped for file in process.user_files):
        raise ConfigurationError(
            f"{name}: userFiles of more than 1 MB do not travel with a function: name a path in"
            " userParams"
        )
    error_column: str | None = op._values_of_all()["errorCol"]
    names = results.names if error_column is None else [*results.names, error_column]
    return PredictionSettings(
        process, path, arguments, results, tuple((each, True) for each in names), error_column
    )
