"""Training on a session cluster of four TaskManagers with one slot each: every process of a group
runs in another one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from akdl import testing
from bridge.exceptions import ConfigurationError, TaskError
from operators import (
    BatchOperator,
    MemSourceBatchOp,
    TensorFlow2BatchOp,
    TF2TableModelTrainBatchOp,
    getMLEnv,
    resetEnv,
    useRemoteEnv,
)
from tests.akdl.keras.support import SCRIPTS as KERAS_SCRIPTS
from tests.akdl.keras.support import script, weights_in
from tests.e2e.jobs import SCRIPTS, points, script_op, sequence, train_op
from tests.e2e.test_training import SGD
from tests.support.flink_cluster import FlinkCluster, flink_cluster
from tests.support.leftovers import DEADLINE_S, wait_until

# The last tests kill TaskManagers, and leave too few for those before them.
pytestmark = [pytest.mark.estimator, pytest.mark.cluster, pytest.mark.tf, pytest.mark.in_order]

KERAS = "strategy STRING, loss FLOAT, `rows` FLOAT, weights STRING"
RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "20",
    "restart-strategy.fixed-delay.delay": "1 s",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    with flink_cluster(tmp_path_factory.mktemp("cluster"), task_managers=4, slots=1) as running:
        useRemoteEnv(running.host, running.rest_port, 4)
        yield running
        resetEnv()


def only_row(table: BatchOperator, op: TensorFlow2BatchOp) -> Any:
    (row,) = table.link(op).collectToDataframe().itertuples()
    return row


@pytest.fixture(autouse=True)
def _slots_are_free_again(cluster: FlinkCluster) -> Iterator[None]:
    """What a job leaves behind, such as a slot, would stop a later one."""
    yield

    def are_free() -> bool:
        overview = cluster.rest("/overview")
        return overview["slots-available"] == overview["slots-total"] > 0

    wait_until(are_free, "all slots are free")


@pytest.mark.long
def test_keras_trains_with_parameter_servers_on_a_cluster(cluster: FlinkCluster) -> None:
    op = train_op(
        "keras_ps.py",
        KERAS,
        "keras_group.py",
        numWorkers=3,
        numPSs=1,
        chiefCoordinates=True,
        userParams={"seed": 1},
    )
    row = only_row(points(getMLEnv().btenv, 120), op)
    assert row.strategy == "ParameterServerStrategyV2"
    assert row.loss < 0.45


@pytest.mark.timeout(900)
@pytest.mark.skipif(
    "AKDL_TEST_JOBS" not in os.environ,
    reason="the others are a row of jobs too: set AKDL_TEST_JOBS to 20",
)
def test_groups_train_in_many_jobs_in_a_row(cluster: FlinkCluster) -> None:
    for _ in range(int(os.environ["AKDL_TEST_JOBS"])):
        op = train_op("ps_sum.py", "total BIGINT, workers BIGINT", numWorkers=2, numPSs=1)
        row = only_row(sequence(getMLEnv().btenv, 50), op)
        assert (row.total, row.workers) == (50, 2)


@pytest.mark.long
@pytest.mark.fault("jobs")
def test_the_traceback_of_the_failed_worker_is_shown_within_seconds(
    cluster: FlinkCluster,
) -> None:
    """The others wait for its gradients, and fail as well when it is gone; theirs must not be the
    error that is shown.
    """
    op = train_op("one_raises.py", SGD, "full_batch_sgd.py", numWorkers=3, numPSs=0, userParams={})
    began = time.time()
    with pytest.raises(TaskError) as caught:
        only_row(points(getMLEnv().btenv, 30), op)
    took = time.time() - began
    text = str(caught.value)
    assert "worker 1 (one_raises.py): the script failed: ValueError: raised at " in text
    assert 'one_raises.py", line' in text
    raised_at = float(text.split("raised at ", 1)[1].split()[0])
    assert began + took - raised_at < DEADLINE_S


@pytest.mark.long
@pytest.mark.fault("jobs", "Too few slots are reported before anything starts")
def test_too_few_slots_are_reported_before_anything_starts(cluster: FlinkCluster) -> None:
    table = sequence(useRemoteEnv(cluster.host, cluster.rest_port, 2).btenv, 10)
    with pytest.raises(
        ConfigurationError,
        match=r"needs 9 slots at once \(9 workers\), but the Flink cluster at .* has 4 in all",
    ):
        table.link(script_op("echo_ids.py", "worker INT, id BIGINT", 9))


EPOCHS = 12


@pytest.mark.long
@pytest.mark.own_processes
@pytest.mark.fault("jobs", "A killed TaskManager costs the steps since the last checkpoint")
def test_a_killed_task_manager_costs_the_steps_since_the_last_checkpoint(
    cluster: FlinkCluster, tmp_path: Path
) -> None:
    """The whole group begins again. A step takes all rows, so that their order does not matter:
    only that of sums in float32 does.

    The result goes to files: Flink does not let a program that collects rows go on after a restart.
    """
    x = np.random.default_rng(1).uniform(-1, 1, [60, 2]).astype(np.float32)
    values = {"x0": x[:, 0], "x1": x[:, 1], "label": (x[:, 0] > x[:, 1]).astype(int)}
    types = {"x0": "FLOAT", "x1": "FLOAT", "label": "BIGINT"}
    marker, checkpoints = tmp_path / "waits", tmp_path / "checkpoints"
    config = {
        "train_data_args": {"file": "${DATASET_FILE}$"},
        "batch_size": 120,
        "epochs": EPOCHS,
        "seed": 1,
        "optimizer": {"name": "SGD", "args": {"learning_rate": 1.0, "momentum": 0.9}},
        "loss": "binary_crossentropy",
    }
    waits = {"callbacks": [{"name": "WaitToBeKilled", "args": {"marker": str(marker)}}]}
    table_env = useRemoteEnv(cluster.host, cluster.rest_port, 2, config=RESTARTS).btenv
    files = [str(SCRIPTS / "keras_until_killed.py"), str(KERAS_SCRIPTS / "rows.py")]
    op = TF2TableModelTrainBatchOp(
        userFiles=files, mainScriptFile=files[0], userParams={"config": {**config, **waits}}, numWorkers=2, numPSs=0,
        intraOpParallelism=2, checkpointDir=str(checkpoints),
    )  # fmt: skip
    result = tmp_path / "result"
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE trained (model_id BIGINT, model_info STRING) "
        f"WITH ('connector' = 'filesystem', 'path' = '{result}', 'format' = 'json')"
    )
    rows = [[cell.item() for cell in row] for row in zip(*values.values())]
    table = MemSourceBatchOp(rows, "x0 FLOAT, x1 FLOAT, label BIGINT")
    job = table.link(op).getOutputTable().execute_insert("trained")
    wait_until(marker.exists, "the first attempt waits", 4 * DEADLINE_S)
    victim = next(
        pid for pid in cluster.task_manager_pids if psutil.pid_exists(pid) and has_task_process(pid)
    )
    psutil.Process(victim).kill()
    job.wait(6 * 1000 * int(DEADLINE_S))
    epochs = [int(line) for line in Path(f"{marker}.epochs").read_text().split()]
    assert epochs == [*range(7), *range(6, EPOCHS)], "six epochs are in the checkpoint"
    model = [
        json.loads(line) for file in result.glob("[!.]*") for line in file.read_text().splitlines()
    ]
    assert model[0]["model_id"] == 0 and len(model) >= 2, "a model table, once"
    file = testing.train_task_config(values, types, str(tmp_path)).dataset_file
    from akdl.keras.keras_training import train

    alone = train(config, script("rows"), {"DATASET_FILE": file}).model
    for ours, theirs in zip(weights_in(checkpoints), alone.get_weights()):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def has_task_process(pid: int) -> bool:
    for each in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "akdl.entry" in each.cmdline():
                return True
    return False
