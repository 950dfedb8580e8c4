"""Hints for Alink names that akdl does not have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from akdl.near_names import did_you_mean

_SCRIPT_HAS_ONE_TABLE = (
    "a script writes all rows to one table: add a column to outputSchemaStr and filter by it"
)
_PRINTS = (
    "AlinkGlobalConfiguration.setPrintProcessInfo(True) shows the output of the script during"
    " training"
)
_OF_STAGES = "stages and stream predictors have it, such as getTransformers()[0] of a PipelineModel"
# The keys are names of methods, and names of parameters, which stand for their setters and getters.
INSTEAD = {
    "lazyVizStatistics": "lazyPrintStatistics() prints the numbers",
    "lazyVizDive": "lazyCollectToDataframe(function) passes the rows to a chart library",
    "getSideOutput": _SCRIPT_HAS_ONE_TABLE,
    "getSideOutputCount": _SCRIPT_HAS_ONE_TABLE,
    "lazyPrintModelInfo": "lazyPrint() prints the rows of a model table",
    "lazyPrintTrainInfo": _PRINTS,
    "enableLazyPrintModelInfo": "getModelData().lazyPrint() prints the rows of a model table",
    "enableLazyPrintTrainInfo": _PRINTS,
    "enableLazyPrintTransformData": "transform(data).lazyPrint(n) prints the rows",
    "enableLazyPrintTransformStat": "transform(data).lazyPrintStatistics() prints the numbers",
    "getOutputSchema": "getOutputSchemaStr() returns names and types as text",
    "merge": "build one Pipeline of several stages and save it",
    "modelData": _OF_STAGES,
    "modelFilePath": (
        "use PipelineModel.save(path) or AkSinkBatchOp; only trainers and predictors of model"
        " tables have it"
    ),
    "modelStreamFilePath": _OF_STAGES,
    "modelStreamScanInterval": _OF_STAGES,
    "modelStreamStartTime": _OF_STAGES,
    "overwriteSink": "only trainers and sinks have it; PipelineModel.save(path) replaces a file",
    "partitions": "set filePath to a folder, and drop rows with filter(condition)",
    "partitionCols": "use a CsvSinkBatchOp, or a ParquetSinkBatchOp with partitionBy",
    "handleInvalidMethod": (
        "errorCol of predictors keeps failing rows; lenient of CSV sources reads wrong cells as"
        " null"
    ),
    "outputBatchAxes": "the batch is the first axis of each output",
    "inputNames": "use selectedCols and inputSignatureDefs",
    "outputNames": "use outputSchemaStr and outputSignatureDefs",
}


def instead_of(name: str) -> str:
    """Hint for a method or parameter of Alink, to append to its name; empty for other names."""
    param = name[3:4].lower() + name[4:] if name.startswith(("set", "get")) else name
    text = INSTEAD.get(name) or INSTEAD.get(param)
    return f": {text}" if text else ""


# The keys are names of operators without BatchOp, StreamOp or LocalOp. Operators for which a method
# of the same name exists are found without this table.
_OPERATORS = {
    "VectorToTensor": "the method toTensor",
    "TypeConvert": "the method convertTypes",
    "VectorAssembler": 'select("*, ARRAY[a, b] AS x") with the columns a and b',
    "SqlQuery": "BatchOperator.sqlQuery",
    "Where": "the method filter",
    "As": "the method alias",
}


def operator_instead(text: str, methods: Sequence[str]) -> str:
    """Hint for the text of an error about an operator of Alink that is not here; "" for others."""
    found = re.search(
        r"(?:^name|^cannot import name|has no attribute) '(\w+?)(?:Batch|Stream|Local)Op'", text
    )
    if found is None:
        return ""
    stem = found[1]
    method = stem[:1].lower() + stem[1:]
    use = _OPERATORS.get(stem) or (method in methods and f"the method {method}")
    if use:
        return f": use {use} of a BatchOperator or StreamOperator"
    return did_you_mean(stem, [*_OPERATORS, *methods])


class WithHints:
    # Type checkers would accept any attribute if they saw this method.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            hint = instead_of(name) or did_you_mean(name, dir(type(self)))
            raise AttributeError(f"{type(self).__name__} has no {name!r}{hint}")
