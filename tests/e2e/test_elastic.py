"""A training with a pair as numWorkers on a session cluster whose TaskManagers come and are
killed.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from akdl import testing
from operators import MemSourceBatchOp, TF2TableModelTrainBatchOp, resetEnv, useRemoteEnv
from tests.akdl.keras.support import SCRIPTS as KERAS_SCRIPTS
from tests.akdl.keras.support import script, weights_in
from tests.e2e.jobs import SCRIPTS
from tests.support.flink_cluster import FlinkCluster, flink_cluster
from tests.support.leftovers import DEADLINE_S, is_running, wait_until

# The second test begins with the TaskManager that the first one leaves.
pytestmark = [
    pytest.mark.cluster, pytest.mark.tf, pytest.mark.slow, pytest.mark.own_processes, pytest.mark.in_order, pytest.mark.timeout(900),
]  # fmt: skip

X = np.random.default_rng(1).uniform(-1, 1, [60, 2]).astype(np.float32)
VALUES = {"x0": X[:, 0], "x1": X[:, 1], "label": (X[:, 0] > X[:, 1]).astype(int)}
TYPES = {"x0": "FLOAT", "x1": "FLOAT", "label": "BIGINT"}
CONFIG = {
    "train_data_args": {"file": "${DATASET_FILE}$"}, "batch_size": 120, "epochs": 10**6, "seed": 1, "loss": "binary_crossentropy",
    "optimizer": {"name": "SGD", "args": {"learning_rate": 0.1}},
}  # fmt: skip
SLOWLY = {"callbacks": [{"name": "Slowly", "args": {"epoch_s": 0.1}}]}


RESTARTS = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "20",
    "restart-strategy.fixed-delay.delay": "1 s",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    with flink_cluster(tmp_path_factory.mktemp("cluster"), task_managers=1, slots=1) as running:
        yield running


@pytest.fixture(scope="module")
def managers(cluster: FlinkCluster) -> list[int]:
    """The TaskManagers that have not been killed."""
    return list(cluster.task_manager_pids)


def task_processes(managers: list[int]) -> list[psutil.Process]:
    """Return the TensorFlow processes of these TaskManagers."""
    found = []
    for manager in filter(is_running, managers):
        for each in psutil.Process(manager).children(recursive=True):
            try:
                if "akdl.entry" in each.cmdline() and each.status() != psutil.STATUS_ZOMBIE:
                    found.append(each)
            except psutil.NoSuchProcess:
                continue
    return found


class Follower:
    """What the TaskManagers of a cluster train, and an operator that trains until it is asked to
    stop.
    """

    def __init__(self, cluster: FlinkCluster, managers: list[int], checkpoints: Path) -> None:
        self._cluster, self._managers, self._checkpoints = cluster, managers, checkpoints
        self._earlier: set[psutil.Process] = set()
        files = [str(SCRIPTS / "keras_slowly.py"), str(KERAS_SCRIPTS / "rows.py")]
        self.op = TF2TableModelTrainBatchOp(
            userFiles=files, mainScriptFile=files[0], userParams={"config": {**CONFIG, **SLOWLY}}, numWorkers=(1, 3), numPSs=0,
            intraOpParallelism=1, checkpointDir=str(checkpoints), elasticWait=2.0,
        )  # fmt: skip
        self.seen: list[int] = []
        rows = [[cell.item() for cell in row] for row in zip(*VALUES.values())]
        self.trained = MemSourceBatchOp(rows, "x0 FLOAT, x1 FLOAT, label BIGINT").link(self.op)

    def trains_with(self, workers: int) -> None:
        """Wait until so many workers of a new job have written a checkpoint."""

        def have_started() -> bool:
            found = task_processes(self._managers)
            return len(found) == workers and not self._earlier & set(found)

        wait_until(have_started, f"{workers} workers have started", 6 * DEADLINE_S)
        before = [None, self._last()]
        wait_until(
            lambda: self._last() not in before, f"{workers} workers have trained", 6 * DEADLINE_S
        )
        self._earlier.update(task_processes(self._managers))
        self.seen.append(workers)

    def add_manager(self) -> None:
        self._managers.append(self._cluster.start("taskmanager"))

    def kill_manager(self) -> None:
        psutil.Process(self._managers.pop(0)).kill()

    def _last(self) -> str | None:
        state = self._checkpoints / "checkpoint"
        return state.read_text() if state.exists() else None

    def run(self, follow: Callable[[], None], job: Callable[[], Any]) -> Any:
        """Run a job, and follow it in another thread; stop the training at the end of that."""

        def follow_and_stop() -> None:
            try:
                follow()
            finally:
                self.op.stop()

        follower = threading.Thread(target=follow_and_stop)
        follower.start()
        try:
            return job()
        finally:
            follower.join()
            resetEnv()
            wait_until(lambda: not task_processes(self._managers), "nothing stays behind")


@pytest.mark.fault(
    "hosts", "An elastic training continues with fewer workers on the hosts that are left"
)
def test_workers_follow_the_task_managers(
    cluster: FlinkCluster, managers: list[int], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A step takes all rows, so that their order does not matter, and one process makes the same
    steps.
    """
    checkpoints = tmp_path / "checkpoints"
    useRemoteEnv(cluster.host, cluster.rest_port, 1)
    follower = Follower(cluster, managers, checkpoints)

    def follow() -> None:
        follower.trains_with(1)
        follower.add_manager()
        follower.trains_with(2)
        follower.kill_manager()
        follower.trains_with(1)

    model = follower.run(follow, follower.trained.collectToDataframe)
    assert follower.seen == [1, 2, 1]
    assert model.model_id[0] == 0 and len(model) >= 2, "a model table"
    said = [line for line in capfd.readouterr().err.splitlines() if " of 1 to 3 workers" in line]
    assert [int(line.split(" with ")[1].split()[0]) for line in said] == [1, 2, 1]
    import tensorflow as tf

    progress = json.loads(tf.train.load_variable(str(checkpoints), "values/.ATTRIBUTES/py_state"))
    dataset = testing.train_task_config(VALUES, TYPES, str(tmp_path)).dataset_file
    from akdl.keras.keras_training import train

    alone = train(
        {**CONFIG, "epochs": progress["steps"]}, script("rows"), {"DATASET_FILE": dataset}
    ).model
    for ours, theirs in zip(weights_in(checkpoints), alone.get_weights()):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.long
@pytest.mark.fault(
    "hosts", "An elastic training does not wait for a lost host as long as Flink's restart would"
)
def test_a_restart_by_flink_ends_in_a_job_of_fewer_workers(
    cluster: FlinkCluster, managers: list[int], tmp_path: Path
) -> None:
    table_env = useRemoteEnv(cluster.host, cluster.rest_port, 1, config=RESTARTS).btenv
    table_env.execute_sql(
        "CREATE TEMPORARY TABLE trained (model_id BIGINT, model_info STRING) WITH ('connector' = 'blackhole')"
    )
    follower = Follower(cluster, managers, tmp_path / "checkpoints")
    follower.add_manager()
    wait_until(lambda: cluster.rest("/overview")["slots-available"] == 2, "both slots are free")

    def follow() -> None:
        follower.trains_with(2)
        follower.kill_manager()
        follower.trains_with(1)

    follower.run(follow, lambda: follower.trained.insertInto("trained"))
    assert follower.seen == [2, 1]
