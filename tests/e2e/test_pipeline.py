"""Pipelines: trained, saved, loaded elsewhere, and served without Flink; all with the same
numbers.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from operators import (
    AkSourceBatchOp,
    Pipeline,
    PipelineModel,
    TF2TableModelTrainer,
    TFTableModelPredictBatchOp,
    TFTableModelPredictor,
    getMLEnv,
    useLocalEnv,
)
from tests.e2e.jobs import points
from tests.e2e.test_predict import SCRIPT
from tests.support.leftovers import DEADLINE_S

pytestmark = [pytest.mark.flink, pytest.mark.tf, pytest.mark.slow]

ROWS = "x0 FLOAT, x1 FLOAT, label BIGINT"
LOCAL = """
import json, sys
from operators import LocalPredictor
with LocalPredictor(sys.argv[1], sys.argv[2]) as predictor:
    rows = predictor.map_batch(json.loads(sys.stdin.read()))
    print(json.dumps([predictor.getOutputColNames(), rows, sorted({"pyflink", "py4j"} & set(sys.modules))]))
"""


@pytest.fixture(scope="module", autouse=True)
def _local_env() -> None:
    useLocalEnv(2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> PipelineModel:
    script = tmp_path_factory.mktemp("pipeline") / "train.py"
    script.write_text(SCRIPT)
    trainer = TF2TableModelTrainer(
        userFiles=[], mainScriptFile=str(script), numWorkers=1, numPSs=0, outputSchemaStr="y FLOAT", inferSelectedCols=["x0", "x1"],
    )  # fmt: skip
    # The second stage feeds the same model with the first one's output in place of x1.
    second = TFTableModelPredictor(
        outputSchemaStr="z FLOAT",
        outputSignatureDefs=["y"],
        selectedCols=["x0", "y"],
        inputSignatureDefs=["x0", "x1"],
    )
    fitted = trainer.fit(points(getMLEnv().btenv, 10))
    second._model = fitted._model
    return Pipeline(fitted, second).fit(points(getMLEnv().btenv, 10))


def expected(x0: Any, x1: Any) -> tuple[Any, Any]:
    y = 2 * x0 - x1
    return y, 2 * x0 - y


@pytest.mark.long
def test_pipeline_gives_equal_numbers_in_tables_and_local_predictors(
    model: PipelineModel, tmp_path: pathlib.Path
) -> None:
    path = str(tmp_path / "model.akdl")
    model.save(path)
    rows = points(getMLEnv().btenv, 301)
    found = model.transform(rows).collectToDataframe()
    assert found.columns.tolist() == ["x0", "x1", "label", "y", "z"]
    y, z = expected(found.x0, found.x1)
    np.testing.assert_allclose(found.y, y, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found.z, z, rtol=1e-4, atol=1e-6)
    again = PipelineModel.load(path).transform(rows).collectToDataframe()
    np.testing.assert_array_equal(np.sort(again.z), np.sort(found.z))
    given = found[["x0", "x1", "label"]].values.tolist()
    command = [sys.executable, "-c", LOCAL, path, ROWS]
    answer = subprocess.run(
        command,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
        check=True,
    )
    names, local, loaded = json.loads(answer.stdout)
    assert names == ["x0", "x1", "label", "y", "z"] and loaded == [], (
        "no Flink and no Java in that process"
    )
    np.testing.assert_array_equal(np.array([row[4] for row in local], "f4"), found.z.to_numpy())


@pytest.mark.slow
def test_a_trained_model_becomes_an_ak_file_that_predicts(tmp_path: pathlib.Path) -> None:
    script, path = tmp_path / "train.py", str(tmp_path / "model.ak")
    runs = tmp_path / "runs"
    script.write_text(
        SCRIPT.replace("def main(", f"open({str(runs)!r}, 'a').write('run\\n')\n\n\ndef main(", 1)
    )
    trainer = TF2TableModelTrainer(
        userFiles=[], mainScriptFile=str(script), numWorkers=1, numPSs=0, outputSchemaStr="y FLOAT", inferSelectedCols=["x0", "x1"],
        modelFilePath=path,
    )  # fmt: skip
    data = points(getMLEnv().btenv, 10)
    first = trainer.fitAndTransform(data).collectToDataframe()
    assert runs.read_text() == "run\n", (
        "the model is trained once, for the file and for the predictor"
    )
    again = TFTableModelPredictor(
        modelFilePath=path, outputSchemaStr="y FLOAT", selectedCols=["x0", "x1"]
    )
    second = again.transform(data).collectToDataframe()
    assert np.allclose(sorted(first.y), sorted(second.y)) and np.allclose(
        first.y, expected(first.x0, first.x1)[0]
    )
    rows = AkSourceBatchOp(filePath=path)
    assert rows.getSchemaStr() == "model_id BIGINT, model_info STRING"
    predict = TFTableModelPredictBatchOp(outputSchemaStr="y FLOAT", selectedCols=["x0", "x1"])
    assert np.allclose(
        sorted(predict.linkFrom([rows, data]).collectToDataframe().y), sorted(first.y)
    )
