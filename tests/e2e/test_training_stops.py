"""A running job that its driver asks to stop."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from akdl.storage.training_folders import STOPPED
from operators import TF2TableModelTrainBatchOp, getMLEnv, useLocalEnv
from tests.akdl.keras.support import SCRIPTS, weights_in
from tests.e2e.jobs import points
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = [pytest.mark.flink, pytest.mark.tf, pytest.mark.long]


def test_stopped_training_succeeds_with_the_model_so_far(tmp_path: Path) -> None:
    useLocalEnv(1)
    script, checkpoints = str(SCRIPTS / "rows.py"), tmp_path / "checkpoints"
    config = {
        "train_data_args": {"file": "${DATASET_FILE}$"},
        "batch_size": 20,
        "epochs": 10**6,
        "optimizer": "SGD",
        "loss": "binary_crossentropy",
    }
    op = TF2TableModelTrainBatchOp(
        userFiles=[script], mainScriptFile=script, userParams={"config": config}, numWorkers=1, numPSs=0,
        checkpointDir=str(checkpoints),
    )  # fmt: skip
    trained = points(getMLEnv().btenv, 60).link(op)

    def stop_when_it_trains() -> None:
        wait_until(lambda: any(checkpoints.glob("*.index")), "it trains", 3 * DEADLINE_S)
        op.stop()

    stopper = threading.Thread(target=stop_when_it_trains)
    stopper.start()
    assert len(trained.collectToDataframe()) >= 2, "a model table"
    stopper.join()
    assert (checkpoints / STOPPED).exists() and len(weights_in(checkpoints)) == 2
