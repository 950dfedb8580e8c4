"""Files that the Python workers of a cluster read and write, while workers and TaskManagers die."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from operators import (
    BatchOperator,
    FeatherSourceStreamOp,
    ParquetSinkBatchOp,
    ParquetSinkStreamOp,
    ParquetSourceBatchOp,
    StreamOperator,
    TensorFlow2BatchOp,
    resetEnv,
    useRemoteEnv,
)
from tests.support.flink_cluster import FlinkCluster, flink_cluster
from tests.support.leftovers import DEADLINE_S, is_running, wait_until
from tests.support.slow_rows import slow_rows

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ROWS = 6000
MANAGERS = 4
RESTARTS = {
    "execution.checkpointing.interval": "500 ms", "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "60", "restart-strategy.fixed-delay.delay": "1 s",
}  # fmt: skip


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    """TaskManagers with a slot each, of which jobs use two."""
    options = {"heartbeat.interval": "1 s", "heartbeat.timeout": "6 s"}
    with flink_cluster(
        tmp_path_factory.mktemp("cluster"), MANAGERS, slots=1, options=options
    ) as made:
        useRemoteEnv(made.host, made.rest_port, 2, RESTARTS)
        yield made
        resetEnv()


@pytest.fixture(scope="module")
def managers(started: FlinkCluster) -> list[int]:
    return list(started.task_manager_pids)


@pytest.fixture
def cluster(started: FlinkCluster, managers: list[int]) -> FlinkCluster:
    """The cluster with all its TaskManagers: those that an earlier test has ended are replaced.

    A test kills one, and a killed Python worker may end another: Beam's "Reference count must not
    be negative" is fatal there.
    """

    def are_free() -> bool:
        managers[:] = filter(is_running, managers)
        overview = started.rest("/overview")
        return overview["slots-available"] == overview["slots-total"] == len(managers)

    # The dead are forgotten first, or they would be counted instead of the new ones.
    wait_until(are_free, "the cluster has the TaskManagers that live")
    managers += [started.start("taskmanager") for _ in range(MANAGERS - len(managers))]
    wait_until(are_free, "all TaskManagers are there")
    return dataclasses.replace(started, task_manager_pids=tuple(managers))


def python_workers(cluster: FlinkCluster) -> list[psutil.Process]:
    found = []
    for pid in filter(is_running, cluster.task_manager_pids):
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if "beam_boot" in " ".join(child.cmdline()):
                    found.append(child)
    return found


def kill_a_worker(cluster: FlinkCluster) -> None:
    python_workers(cluster)[0].send_signal(signal.SIGKILL)


def kill_a_busy_task_manager(cluster: FlinkCluster) -> None:
    """Kill one that has a Python worker; a worker that an earlier attempt has left may end
    meanwhile.
    """

    def is_killed() -> bool:
        for worker in python_workers(cluster):
            with contextlib.suppress(psutil.NoSuchProcess):
                for each in worker.parents():
                    if each.pid in cluster.task_manager_pids:
                        each.kill()
                        return True
        return False

    wait_until(is_killed, "a TaskManager with a Python worker is killed")


def run_and_kill(
    cluster: FlinkCluster, execute: Callable[[], Any], tmp_path: pathlib.Path, seen: pathlib.Path
) -> None:
    """Run a job. Kill a Python worker when both subtasks have written files and touched two of
    `seen`, and a TaskManager when they have again; then each row is there once.
    """
    errors = []

    def run() -> None:
        try:
            execute()
        except Exception as error:
            errors.append(error)

    job = threading.Thread(target=run)
    job.start()
    before: set[pathlib.Path] = set()

    def work_again() -> bool:
        new = {*tmp_path.rglob("part-*"), *seen.glob("*")} - before
        parts = sum(path.name.startswith("part-") for path in new)
        return bool(errors) or (parts >= 2 and len(new) - parts >= (2 if seen.exists() else 0))

    wait_until(work_again, "both subtasks read and write", 6 * DEADLINE_S)
    before |= {*tmp_path.rglob("part-*"), *seen.glob("*")}
    kill_a_worker(cluster)
    wait_until(work_again, "both subtasks read and write again", 6 * DEADLINE_S)
    kill_a_busy_task_manager(cluster)
    job.join(14 * DEADLINE_S)
    assert not job.is_alive() and errors == []
    assert sorted(ds.dataset(tmp_path / "out").to_table()["id"].to_pylist()) == list(range(ROWS))


@pytest.mark.long
@pytest.mark.fault(
    "hosts",
    "Python workers and TaskManagers that are killed while they read and write files lose and double no row",
)
def test_killed_workers_of_a_stream_lose_and_double_nothing(
    cluster: FlinkCluster, tmp_path: pathlib.Path
) -> None:
    texts = pa.array([os.urandom(2500).hex() for _ in range(ROWS)])  # so that a part has 200 rows
    (tmp_path / "in").mkdir()
    pf.write_feather(
        pa.table({"id": range(ROWS), "text": texts}),
        tmp_path / "in" / "a.feather",
        "uncompressed",
        chunksize=1000,
    )
    slow = slow_rows(
        FeatherSourceStreamOp(filePath=str(tmp_path / "in")).getOutputTable(),
        200,
        tmp_path / "fails",
    )
    StreamOperator.fromTable(slow).select("id").link(
        ParquetSinkStreamOp(filePath=f"{tmp_path}/out/")
    )
    run_and_kill(cluster, StreamOperator.execute, tmp_path, tmp_path / "seen")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


READS_SLOWLY = """
import os, pathlib, time
def main(config):
    seen = pathlib.Path(config.user_params["seen"])
    for number, batch in enumerate(config.tf_context.batches(50)):
        if number == 3:
            (seen / str(os.getpid())).touch()
            while len(os.listdir(seen)) < 2:  # a fast one would end before the other has begun
                time.sleep(0.05)
        time.sleep(0.1)
        config.output_writer.write_batch({"id": batch["id"].numpy()})
"""


@pytest.mark.long
@pytest.mark.fault(
    "hosts",
    "Python workers and TaskManagers that are killed while scripts read files lose and double no row",
)
def test_killed_workers_of_a_batch_lose_and_double_nothing(
    cluster: FlinkCluster, tmp_path: pathlib.Path
) -> None:
    for name in ("seen", "in"):
        (tmp_path / name).mkdir()
    # more than the queues between file and script hold
    table = pa.table({"id": range(ROWS), "text": ["x" * 20_000] * ROWS})
    pq.write_table(table, tmp_path / "in" / "a.parquet", row_group_size=500)
    script = tmp_path / "reads_slowly.py"
    script.write_text(READS_SLOWLY)
    op = TensorFlow2BatchOp(
        userFiles=[str(script)], mainScriptFile=str(script), outputSchemaStr="id BIGINT", numWorkers=2, numPSs=0, readOnce=True,
        userParams={"seen": str(tmp_path / "seen")}, intraOpParallelism=1,
    )  # fmt: skip
    ParquetSourceBatchOp(filePath=str(tmp_path / "in")).link(op).link(
        ParquetSinkBatchOp(filePath=f"{tmp_path}/out/", maxFileBytes=10_000)
    )
    run_and_kill(cluster, BatchOperator.execute, tmp_path, tmp_path / "seen")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "in", "out", "reads_slowly.py", "seen",
    ]  # fmt: skip
