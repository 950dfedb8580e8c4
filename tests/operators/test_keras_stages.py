"""Stages of KerasSequential: trained, saved, loaded, and used without Flink."""

from __future__ import annotations

import json
import pathlib

import pandas as pd
import pytest

from operators import (
    BatchOperator,
    KerasSequentialClassifier,
    KerasSequentialClassifierPredictStreamOp,
    KerasSequentialClassifierTrainBatchOp,
    KerasSequentialRegressionModel,
    KerasSequentialRegressor,
    LocalPredictor,
    Pipeline,
    PipelineModel,
    StreamOperator,
    getMLEnv,
    useLocalEnv,
)
from tests.e2e.jobs import points

pytestmark = [pytest.mark.flink, pytest.mark.tf, pytest.mark.slow]
TRAIN = {
    "tensorCol": "t",
    "layers": ["Dense(4, activation='relu')"],
    "numEpochs": 12,
    "batchSize": 16,
    "seed": 1,
    "learningRate": 0.05,
}


@pytest.fixture(scope="module", autouse=True)
def _local_env() -> None:
    useLocalEnv(2)


def table(rows: int = 200, mode: str = "btenv") -> BatchOperator:
    columns = "ARRAY[x0, x1] AS t, CASE WHEN label = 1 THEN 'yes' ELSE 'no' END AS answer, x0 - x1 AS `value`"
    return points(getattr(getMLEnv(), mode), rows).select(columns)


def details(predicted: pd.DataFrame) -> pd.DataFrame:
    """Return the probabilities, a column for each answer, in the order of those of "yes"."""
    rows = pd.DataFrame(map(json.loads, predicted.d))
    return rows.sort_values("yes", ignore_index=True)


def test_classifier_is_trained_saved_and_predicts(tmp_path: pathlib.Path) -> None:
    stage = KerasSequentialClassifier(
        **TRAIN,
        labelCol="answer",
        predictionCol="p",
        predictionDetailCol="d",
        reservedCols=["answer"],
        numWorkers=1,
    )
    model = Pipeline(stage).fit(table())
    found = model.transform(table()).collectToDataframe()
    assert list(found.columns) == ["answer", "p", "d"]
    assert (found.answer == found.p).mean() > 0.85
    assert set(json.loads(found.d[0])) == {"no", "yes"}
    model.save(str(tmp_path / "pipeline"))
    loaded = PipelineModel.load(str(tmp_path / "pipeline"))
    again = loaded.transform(table()).collectToDataframe()
    pd.testing.assert_frame_equal(details(again), details(found), rtol=1e-5)
    with LocalPredictor(str(tmp_path / "pipeline"), "t ARRAY<FLOAT>, answer STRING") as predictor:
        assert predictor.getOutputColNames() == ["answer", "p", "d"]
        assert predictor.map(([0.9, -0.9], "?"))[1] == "yes"


@pytest.mark.long
def test_regressor_of_two_workers_is_trained_and_predicts(tmp_path: pathlib.Path) -> None:
    """As programs for Alink write it: the model goes into a file, and predictors read it, of
    streams too.
    """
    path = str(tmp_path / "model.ak")
    stage = KerasSequentialRegressor(
        **TRAIN, labelCol="value", predictionCol="p", numWorkers=2
    ).setModelFilePath(path)
    found = stage.setModelStreamScanInterval(3).fitAndTransform(table()).collectToDataframe()
    again = (
        KerasSequentialRegressionModel(predictionCol="p")
        .setModelFilePath(path)
        .setModelStreamFilePath(str(tmp_path))
    )
    predicted = again.transform(table()).collectToDataframe()
    # A busy host cuts the rows into other batches, in which float32 sums differ in the last bit.
    assert sorted(predicted.p) == pytest.approx(sorted(found.p), rel=1e-5, abs=1e-6)
    stream = StreamOperator.fromTable(table(50, "stenv").getOutputTable())
    assert again.transform(stream).getColNames() == ["t", "answer", "value", "p"]
    assert list(found.columns) == ["t", "answer", "value", "p"]
    assert found.p.corr(found.value) > 0.9


@pytest.mark.long
def test_classifier_predicts_a_stream() -> None:
    model = table().link(
        KerasSequentialClassifierTrainBatchOp(**TRAIN, labelCol="answer", numWorkers=1)
    )
    predict = KerasSequentialClassifierPredictStreamOp(
        model, predictionCol="p", reservedCols=["answer"]
    )
    stream = StreamOperator.fromTable(table(50, "stenv").getOutputTable())
    with predict.linkFrom(stream).getOutputTable().execute().collect() as rows:
        found = [tuple(row) for row in rows]
    assert len(found) == 50 and sum(answer == predicted for answer, predicted in found) > 40
