"""Names of Alink that are not here, and what does the same: said where a program uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from akdl.near_names import did_you_mean

_SCRIPT_HAS_ONE_TABLE = "a script writes all rows to one table: add a column to outputSchemaStr and filter by it"
_PRINTS = "AlinkGlobalConfiguration.setPrintProcessInfo(True) shows what the script prints while it trains"
_OF_STAGES = "stages and stream predictors have it, such as getTransformers()[0] of a PipelineModel"
# Methods by their names, and parameters, whose setters and getters are meant too.
INSTEAD = {
    "lazyVizStatistics": "lazyPrintStatistics() prints the numbers",
    "lazyVizDive": "lazyCollectToDataframe(function) gives the rows to a library for charts",
    "getSideOutput": _SCRIPT_HAS_ONE_TABLE,
    "getSideOutputCount": _SCRIPT_HAS_ONE_TABLE,
    "lazyPrintModelInfo": "lazyPrint() prints the rows of a model table",
    "lazyPrintTrainInfo": _PRINTS,
    "enableLazyPrintModelInfo": "getModelData().lazyPrint() prints the rows of a model table",
    "enableLazyPrintTrainInfo": _PRINTS,
    "enableLazyPrintTransformData": "transform(data).lazyPrint(n) prints the rows",
    "enableLazyPrintTransformStat": "transform(data).lazyPrintStatistics() prints the numbers",
    "getOutputSchema": "getOutputSchemaStr() gives names and types as text",
    "merge": "a Pipeline has several stages: save it as one",
    "modelData": _OF_STAGES,
    "modelFilePath": "PipelineModel.save(path) and AkSinkBatchOp write models; trainers and predictors of model tables have it",
    "modelStreamFilePath": _OF_STAGES,
    "modelStreamScanInterval": _OF_STAGES,
    "modelStreamStartTime": _OF_STAGES,
    "overwriteSink": "trainers and sinks have it; PipelineModel.save(path) replaces a file",
    "partitions": "filePath may be a folder, and filter(condition) leaves rows out",
    "partitionCols": "a TableSinkBatchOp writes folders, into a table that is PARTITIONED BY columns",
    "handleInvalidMethod": "errorCol of predictors keeps rows that fail; lenient of CSV sources makes null of wrong cells",
    "outputBatchAxes": "the batch is the first axis of each output",
    "inputNames": "use selectedCols and inputSignatureDefs",
    "outputNames": "use outputSchemaStr and outputSignatureDefs",
}


def instead_of(name: str) -> str:
    """Return ": " and what does the same as a method or parameter of Alink, to be put behind its name; "" for other names."""
    param = name[3:4].lower() + name[4:] if name.startswith(("set", "get")) else name
    text = INSTEAD.get(name) or INSTEAD.get(param)
    return f": {text}" if text else ""


class WithHints:
    """Base of classes that answer for names that they do not have."""

    if not TYPE_CHECKING:  # for type checkers, they have the attributes that they have

        def __getattr__(self, name: str) -> Any:
            hint = instead_of(name) or did_you_mean(name, dir(type(self)))
            raise AttributeError(f"{type(self).__name__} has no {name!r}{hint}")
