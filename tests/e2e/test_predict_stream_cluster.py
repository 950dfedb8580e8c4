"""Streams are predicted on a session cluster of two TaskManagers with one slot each, which both use
one model process.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import tempfile
from collections.abc import Iterator

import psutil
import pytest

from akdl.storage.model_archive import pack
from operators import (
    MemSourceBatchOp,
    TFTableModelPredictStreamOp,
    getMLEnv,
    resetEnv,
    useRemoteEnv,
)
from tests.akdl.serving import models
from tests.e2e.stream_jobs import SentModels, check_once, running
from tests.e2e.streams import counting
from tests.support.flink_cluster import FlinkCluster, flink_cluster
from tests.support.leftovers import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.tf, pytest.mark.own_processes]

ONES = (
    "id, ARRAY[CAST(1 AS FLOAT), CAST(1 AS FLOAT), CAST(1 AS FLOAT)] AS x, CAST(0 AS BIGINT) AS k"
)
TOOK_OVER = (
    "TFTableModelPredictStreamOp: the model number 1 of the stream took over from the model "
)


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    with flink_cluster(tmp_path_factory.mktemp("cluster"), task_managers=2, slots=1) as started:
        config = {
            "execution.checkpointing.interval": "500 ms", "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "20", "restart-strategy.fixed-delay.delay": "200 ms",
        }  # fmt: skip
        useRemoteEnv(started.host, started.rest_port, 2, config)
        yield started
        resetEnv()


def model_processes(started_by: pathlib.Path) -> list[psutil.Process]:
    """Those of this test: others run at the same time."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if "akdl.serving.model_server" in process.cmdline() and process.environ().get(
                "STARTED_BY"
            ) == str(started_by):
                found.append(process)
    return found


@pytest.mark.long
def test_a_model_of_a_stream_survives_a_restart(
    tmp_path: pathlib.Path, cluster: FlinkCluster
) -> None:
    table = MemSourceBatchOp(list(pack(models.scaled(1.0))), "model_id BIGINT, model_info STRING")
    sent = SentModels(tmp_path / "sent")
    # Chunks of two rows, so that some are with the model at each barrier, which alone brings them
    # out.
    op = TFTableModelPredictStreamOp(
        table,
        outputSchemaStr="p DOUBLE",
        selectedCols=["x", "k"],
        reservedCols=["id"],
        chunkRows=2,
        chunkWait=60,
    )
    op.setEnvVars([f"STARTED_BY={tmp_path}"])
    op.linkFrom(counting(getMLEnv().stenv, 1_000_000, per_second=20).select(ONES), sent.stream())

    def checkpoints() -> int:
        (job,) = (
            each["jid"]
            for each in cluster.rest("/jobs/overview")["jobs"]
            if each["state"] == "RUNNING"
        )
        return cluster.rest(f"/jobs/{job}/checkpoints")["counts"]["completed"]

    def logged(text: str) -> int:
        return sum(
            file.read_text("utf-8", "replace").count(text)
            for file in cluster.log_folder.glob("taskmanager-*")
        )

    with running(op) as job:
        job.wait_for(lambda: job.predicts(3.0), "the first model predicts")
        sent.send(list(pack(models.scaled(2.0))))
        job.wait_for(lambda: job.predicts(6.0), "the second model has taken over")
        done = checkpoints()
        job.wait_for(lambda: checkpoints() > done + 1, "a checkpoint has passed")
        job.wait_for(lambda: logged(TOOK_OVER), "the log says so")
        assert logged(TOOK_OVER) == 1
        serving: list[psutil.Process] = []

        def is_one() -> bool:
            serving[:] = model_processes(tmp_path)
            return len(serving) == 1

        job.wait_for(is_one, "one process serves both tasks")
        (process,) = serving
        process.kill()
        job.wait_for(
            lambda: [other.pid for other in model_processes(tmp_path)] not in ([], [process.pid]),
            "the job goes on",
        )
        job.wait_for(lambda: logged(TOOK_OVER) == 2, "the second model has taken over again")
        before = len(job.rows)
        job.wait_for(
            lambda: len(job.rows) > before + 200 and job.predicts(6.0),
            "the second model predicts again",
        )
        assert logged(TOOK_OVER) == 2 and logged("FileExistsError") == 0
    check_once(job.rows)
    assert {row[1] for row in job.rows} == {3.0, 6.0}
    place = pathlib.Path(tempfile.gettempdir(), f"akdl_models_{os.geteuid()}")
    wait_until(
        lambda: (
            not model_processes(tmp_path) and not list(place.glob("TFTableModelPredictStreamOp*"))
        ),
        "the process has ended",
    )
