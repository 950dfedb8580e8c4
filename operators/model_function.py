"""Models as functions of SQL."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from akdl.storage.files import FileError, is_remote, local_path
from bridge.exceptions import ConfigurationError, refused_at
from bridge.schema import Schema, quoted
from operators.predict_batch import PredictOp, TFSavedModelPredictBatchOp
from operators.predict_function import PredictBatchOp

if TYPE_CHECKING:
    from pyflink.table.udf import UserDefinedScalarFunctionWrapper

_NAME = "model_function"


def model_function(
    model: str | Callable[..., object], inputSchemaStr: str, outputSchemaStr: str, **params: object
) -> UserDefinedScalarFunctionWrapper:
    """Make a function for SQL that predicts: the object that `CREATE FUNCTION ... LANGUAGE PYTHON` names.

    The process of the model is shared by all tasks of a query on a host. Nulls are errors of their row, unless `defaults` has a
    value for the column. PyFlink does not tell NaN in a column of numbers from null, and makes NaN of a result null.

    Args:
        model: Folder of a SavedModel, or a zip or tar file of one, at a path that all hosts have, or an address; or a function
            as `predictFn` of `PredictBatchOp` names it.
        inputSchemaStr: Names and types of the arguments, which have the part of `selectedCols`.
        outputSchemaStr: The output that is the result; several outputs, or one with `errorCol`, become a ROW.
        params: Further parameters of `TFSavedModelPredictBatchOp` or `PredictBatchOp`.

    Example:
        add = model_function("model.zip", "x0 FLOAT, x1 FLOAT", "logits DOUBLE")
        tables.create_temporary_function("add_up", add)
        summed = data.select("id, add_up(x0, x1) AS logits")

    Raises:
        ConfigurationError: A parameter is wrong.
    """
    from pyflink.table.udf import udf

    from bridge.serving.prediction import PredictionSettings
    from bridge.serving.sql_function import ModelFunction

    if params.keys() & {"selectedCols", "reservedCols"}:
        raise ConfigurationError(f"{_NAME}: expected no selectedCols or reservedCols: inputSchemaStr has the arguments")
    if unknown := params.keys() & {"modelCol", "candidatePath", "resumeDir", "idCol", "inferProcesses"}:
        raise ConfigurationError(f"{_NAME}: {min(unknown)!r} is a parameter of operators alone")
    is_function = callable(model) or re.search(r"\.py:\w+$", model)
    make: Callable[..., PredictOp] = PredictBatchOp if is_function else TFSavedModelPredictBatchOp
    op = make(**{"predictFn" if is_function else "modelPath": model}, outputSchemaStr=outputSchemaStr, **params)
    with refused_at(_NAME, FileError):
        path = "" if is_function else str(model) if is_remote(str(model)) else local_path(str(model))
    inputs, outputs = Schema.parse(inputSchemaStr), Schema.parse(outputSchemaStr)
    process = replace(op._process(inputs, outputs, elsewhere=False), operator=_NAME)
    if any(file.shipped for file in process.user_files):
        raise ConfigurationError(
            f"{_NAME}: userFiles of more than 1 MB do not travel with a function: name a path in userParams"
        )
    results, error_column = {column.name: column.type.cast_sql for column in outputs}, op._values_of_all()["errorCol"]
    if error_column is not None:
        results[error_column] = "STRING"
    row = "ROW<{}>".format(", ".join(f"{quoted(name)} {sql}" for name, sql in results.items()))
    settings = PredictionSettings(process, path, inputs, outputs, tuple((name, True) for name in results), error_column)
    return udf(ModelFunction(settings), result_type=row if len(results) > 1 else results.popitem()[1], func_type="pandas")
