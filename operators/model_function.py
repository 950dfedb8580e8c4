"""Models as functions of SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bridge.schema import quoted
from operators.predict_function import function_settings

if TYPE_CHECKING:
    from pyflink.table.udf import UserDefinedScalarFunctionWrapper


def model_function(
    model: str | Callable[..., object], inputSchemaStr: str, outputSchemaStr: str, **params: object
) -> UserDefinedScalarFunctionWrapper:
    """Make a function for SQL that predicts: the object that `CREATE FUNCTION ... LANGUAGE PYTHON`
    names.

    The process of the model is shared by all tasks of a query on a host. Nulls are errors of their
    row, unless `defaults` has a value for the column. PyFlink does not tell NaN in a column of
    numbers from null, and makes NaN of a result null.

    Args:
        model: Folder of a SavedModel, or a zip or tar file of one, at a path that all hosts have,
            or an address; or a function as `predictFn` of `PredictBatchOp` names it.
        inputSchemaStr: Names and types of the arguments, which have the part of `selectedCols`.
        outputSchemaStr: The output that is the result; several outputs, or one with `errorCol`,
            become a ROW.
        params: Further parameters of `TFSavedModelPredictBatchOp` or `PredictBatchOp`.

    Example:
        add = model_function("model.zip", "x0 FLOAT, x1 FLOAT", "logits DOUBLE")
        tables.create_temporary_function("add_up", add)
        summed = data.select("id, add_up(x0, x1) AS logits")

    Raises:
        ConfigurationError: A parameter is wrong.
    """
    from pyflink.table.udf import udf

    from bridge.serving.sql_function import ModelFunction

    settings = function_settings("model_function", model, inputSchemaStr, outputSchemaStr, params)
    types = {column.name: column.type.cast_sql for column in settings.output_schema}
    # The column of errors is not in the output schema, and has the type STRING.
    results = [(name, types.get(name, "STRING")) for name, _ in settings.result]
    row = "ROW<{}>".format(", ".join(f"{quoted(name)} {sql}" for name, sql in results))
    return udf(
        ModelFunction(settings),
        result_type=row if len(results) > 1 else results[0][1],
        # A vectorized function receives a batch of rows per call, and a model takes hardly longer
        # for many rows than for one.
        func_type="pandas",
    )
