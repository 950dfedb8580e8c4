"""The page for programs from Alink: it names each operator and parameter that these have there, and
what it says is so.
"""

from __future__ import annotations

import pathlib
import re

import pytest

import operators
from operators.params import accessors
from tests.support.installs import ROOT

PAGES = [ROOT / "docs" / "coming_from_alink.md", ROOT / "docs" / "zh" / "coming_from_alink.md"]
SAME = ("the same", "相同")
MISSING = ("not here", "does not exist", "do not exist", "没有")

# Of Alink's operators around TensorFlow scripts and models, in its documentation and sources.
PARAMETERS = """
userFiles userFile scriptFiles mainScriptFile userParams outputSchemaStr schemaStr schema tableSchema selectedCols
selectedColNames numWorkers numPSs pythonEnv intraOpParallelism MLEnvironmentId modelPath signatureDefKey graphDefTag
inputSignatureDefs outputSignatureDefs reservedCols keepColNames inferSelectedCols inferBatchSize outputBatchAxes inputNames
outputNames modelFilePath overwriteSink modelStreamFilePath modelStreamScanInterval modelStreamStartTime numRows numCols
outputCols outputColConfs idCol maxRows timePerSample timeZones filePath fieldDelimiter quoteChar rowDelimiter ignoreFirstLine
skipBlankLine lenient numFiles partitions partitionCols handleInvalidMethod learningRate validationSplit saveCheckpointsEpochs
tensorCol labelCol layers optimizer numEpochs batchSize saveBestOnly bestMetric saveCheckpointsSecs checkpointFilePath
removeCheckpointBeforeTraining predictionCol predictionDetailCol
""".split()
OPERATORS = """
TensorFlowBatchOp TensorFlow2BatchOp TensorFlowStreamOp TensorFlow2StreamOp TFTableModelTrainBatchOp TF2TableModelTrainBatchOp
TFTableModelPredictBatchOp TFTableModelPredictStreamOp TFSavedModelPredictBatchOp TFSavedModelPredictStreamOp
TFTableModelTrainer TF2TableModelTrainer TFTableModelPredictor TFSavedModelPredictor KerasSequentialClassifier
KerasSequentialRegressor TFRecordDatasetSource TFRecordDatasetSink BertText EasyTransfer DeepAR LSTNet OnnxModelPredict TorchModelPredict
""".split()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_of_alink_exist_as_the_page_says(page: pathlib.Path) -> None:
    text = page.read_text(encoding="utf-8")
    rows = [line.strip("| ").split(" | ", 1) for line in text.splitlines() if line.startswith("| ")]
    ours = {name for each in accessors.ALL for param in each.params for name in param.names}
    known = {*operators.__all__, *ours}
    said = {name: answer for names, answer in rows for name in re.findall(r"`(\w+)…?`", names)}
    assert [name for name in (*PARAMETERS, *OPERATORS) if name not in said] == []
    same = {name for name, answer in said.items() if answer.startswith(SAME)}
    assert (
        len(same) > 50
        and {name for name in same if not any(each.startswith(name) for each in known)} == set()
    )
    missing = {name for name, answer in said.items() if answer.startswith(MISSING)}
    assert (
        missing
        and {name for name in missing if any(each.startswith(name) for each in known)} == set()
    )
