"""A script of `awf_*` callbacks as the main script of an operator: trained on a Flink table, and served from its model table."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from bridge.exceptions import TaskError
from operators import TF2TableModelTrainBatchOp, TFTableModelPredictBatchOp, getMLEnv, useLocalEnv
from tests.e2e.jobs import points

pytestmark = [pytest.mark.flink, pytest.mark.tf]

SCRIPT = str(pathlib.Path(__file__).parent.parent / "keras" / "scripts" / "rows.py")
CONFIG = {
    "train_data_args": {"file": "${DATASET_FILE}$"},
    "batch_size": 20,
    "epochs": 30,
    "seed": 1,
    "optimizer": {"name": "SGD", "args": {"learning_rate": 1.0}},
    "loss": "binary_crossentropy",
}


@pytest.fixture(scope="module", autouse=True)
def _local_env():
    useLocalEnv(2)


@pytest.mark.parametrize("workers", [1, 2])
def test_callbacks_train_on_a_table_and_the_model_predicts(workers):
    rows = points(getMLEnv().btenv, 200)
    train = TF2TableModelTrainBatchOp(
        userFiles=[SCRIPT], mainScriptFile=SCRIPT, userParams={"config": CONFIG}, numWorkers=workers, numPSs=0
    )
    inputs = rows.select("ARRAY[x0, x1] AS x, label")
    predict = TFTableModelPredictBatchOp(outputSchemaStr="p DOUBLE", selectedCols=["x"])
    found = predict.linkFrom(rows.link(train), inputs).collectToDataframe()
    assert np.mean((found.p > 0.5) == (found.label == 1)) > 0.9


def test_a_runner_that_the_script_is_not_written_for():
    train = TF2TableModelTrainBatchOp(
        userFiles=[SCRIPT], mainScriptFile=SCRIPT, userParams={"config": CONFIG, "runner": "estimator"}, numWorkers=1, numPSs=0
    )
    with pytest.raises(TaskError, match="user parameter 'runner': .*rows.py holds no functions of the kind estimator"):
        points(getMLEnv().btenv, 5).link(train).collectToDataframe()
