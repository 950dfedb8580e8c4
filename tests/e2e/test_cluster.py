"""Three TaskManagers with one slot each: a group spreads over them, and every row arrives exactly once."""

from __future__ import annotations

import os
import pathlib
import re
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bridge.exceptions import TaskError
from operators import (
    BatchOperator,
    TensorFlow2BatchOp,
    TF2TableModelTrainBatchOp,
    TFSavedModelPredictBatchOp,
    TFTableModelPredictBatchOp,
    getMLEnv,
    resetEnv,
    useRemoteEnv,
)
from operators.progress.record import read_record
from tests.e2e.jobs import points, script_op, sequence, shares
from tests.e2e.test_predict import SCRIPT, no_model_process_is_left
from tests.e2e.test_rows import check
from tests.support.environments import make_environment, pack
from tests.support.flink_cluster import FlinkCluster, flink_cluster
from tests.support.http import served
from tests.support.leftovers import wait_until

pytestmark = pytest.mark.cluster

SAYS = """
import os

def main(config):
    print(config.dataset_length, "rows", flush=True)
    config.report(3, loss=0.5)
    os.makedirs(config.log_dir, exist_ok=True)
    open(os.path.join(config.log_dir, config.task_type), "w").close()
    config.output_writer.write_batch({"id": [0] * config.dataset_length})
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    with flink_cluster(tmp_path_factory.mktemp("cluster"), task_managers=3, slots=1) as running:
        useRemoteEnv(running.host, running.rest_port, 3)
        yield running
        resetEnv()


@pytest.mark.parametrize("mode", ["btenv", "stenv"])
def test_exactly_once_on_three_task_managers(cluster: FlinkCluster, mode: str) -> None:
    rows = 100_003
    linked = sequence(getattr(getMLEnv(), mode), rows).link(script_op("echo_ids.py", "worker INT, id BIGINT", 3))
    check(shares(linked), rows, 3, 3)
    assert len(task_managers_of_last_job(cluster, "TensorFlow2BatchOp")) == 3, "each worker ran on another TaskManager"


def task_managers_of_last_job(cluster: FlinkCluster, operator: str) -> set[Any]:
    """Return the TaskManagers on which an operator of the newest job ran."""
    newest = max(cluster.rest("/jobs/overview")["jobs"], key=lambda job: job["start-time"])
    vertices = cluster.rest(f"/jobs/{newest['jid']}")["vertices"]
    (vertex,) = (v["id"] for v in vertices if v["name"].startswith(operator) and "addresses" not in v["name"])
    return {
        tm["taskmanager-id"] for tm in cluster.rest(f"/jobs/{newest['jid']}/vertices/{vertex}/taskmanagers")["taskmanagers"]
    }


def test_progress_and_output_come_from_the_cluster(
    cluster: FlinkCluster, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AKDL_PROGRESS", "1")
    useRemoteEnv(cluster.host, cluster.rest_port, 3, config={"debug_mode": True})
    script = tmp_path / "says.py"
    script.write_text(SAYS)
    op = TensorFlow2BatchOp(
        userFiles=[str(script)], mainScriptFile=str(script), outputSchemaStr="id BIGINT", numWorkers=2, numPSs=0,
        logDir=str(tmp_path / "runs"),
    )  # fmt: skip
    frame = sequence(getMLEnv().btenv, 300).link(op).collectToDataframe()
    out, err = capfd.readouterr()
    useRemoteEnv(cluster.host, cluster.rest_port, 3)
    assert len(frame) == 300
    assert re.search(r"^says.py: 300 rows in, 300 out, \d+ s: ", err, re.MULTILINE), err
    (record,) = (read_record(path.read_text()) for path in (tmp_path / "runs").glob("*.jsonl"))
    assert sorted(path.name for path in (tmp_path / "runs").glob("says-py-*/*")) == ["chief", "worker"], "for TensorBoard"
    assert sorted(record.samples) == ["chief 0", "worker 0"] and record.failed is False
    newest = max(cluster.rest("/jobs/overview")["jobs"], key=lambda job: job["start-time"])
    assert newest["name"] == "says.py"
    assert "[says.py, chief 0] 150 rows\n" in out and "[says.py, worker 0] 150 rows\n" in out, out
    assert record.samples["chief 0"][-1][1].metrics == {"loss": 0.5}


def test_a_table_of_the_cluster_goes_on_in_sql(cluster: FlinkCluster) -> None:
    result = sequence(getMLEnv().btenv, 300).link(script_op("echo_ids.py", "worker INT, id BIGINT", 3))
    table = BatchOperator.fromTable(result.getOutputTable()).select("COUNT(*) AS n, COUNT(DISTINCT worker) AS workers")
    assert table.collectToDataframe().values.tolist() == [[300, 3]]


@pytest.mark.tf
def test_a_model_travels_with_the_job_that_predicts(
    cluster: FlinkCluster, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AKDL_PROGRESS", "1")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    env = getMLEnv().btenv
    train = TF2TableModelTrainBatchOp(userFiles=[], mainScriptFile=str(script), numWorkers=1, numPSs=0)
    predict = TFTableModelPredictBatchOp(outputSchemaStr="y DOUBLE", selectedCols=["x0", "x1"])
    found = predict.linkFrom(points(env, 5).link(train), points(env, 1000)).collectToDataframe()
    assert len(found) == 1000
    assert "TFTableModelPredictBatchOp: 1,000 rows in, 1,000 out, " in capfd.readouterr().err
    np.testing.assert_allclose(found.y, 2 * found.x0 - found.x1, rtol=1e-4, atol=1e-6)
    no_model_process_is_left()
    with served(files={"/m.zip": pathlib.Path(train._packed).read_bytes()}) as site:
        by_address = TFSavedModelPredictBatchOp(
            modelPath=f"{site.url}/m.zip", outputSchemaStr="y DOUBLE", selectedCols=["x0", "x1"]
        ).linkFrom(points(env, 10))
    found = by_address.collectToDataframe()
    np.testing.assert_allclose(found.y, 2 * found.x0 - found.x1, rtol=1e-4, atol=1e-6)


IN_ENV = """
import os
def main(config):
    assert os.path.getsize("big") == 2_000_000
    config.output_writer.write_batch({"env": [os.environ["TESTED_ENV"]], "named": [os.environ["NAMED"]]})
"""


def test_a_packed_environment_travels_with_the_job(cluster: FlinkCluster, tmp_path: pathlib.Path) -> None:
    """Driver and TaskManagers share this machine, so the log tells which copy was unpacked: the one that Flink brought."""
    (tmp_path / "main.py").write_text(IN_ENV)
    (tmp_path / "big").write_bytes(bytes(2_000_000))
    archive = pack(make_environment(tmp_path / "made"), str(tmp_path / "env.tar.gz"))
    op = TensorFlow2BatchOp(
        userFiles=[str(tmp_path / "big")], mainScriptFile=str(tmp_path / "main.py"), outputSchemaStr="env STRING, named STRING", numWorkers=3,
        numPSs=0, pythonEnv=archive, envVars=["NAMED=value"],
    )  # fmt: skip
    found = sequence(getMLEnv().btenv, 30).link(op).collectToDataframe()
    place = os.path.join(tempfile.gettempdir(), f"akdl_envs_{os.geteuid()}")
    assert len(found) == 3 and set(found.named) == {"value"} and all(env.startswith(place) for env in found.env)
    assert len(set(found.env)) == 1, "one folder on one host"
    wait_until(lambda: not os.listdir(place), "the environment is gone with its last process")
    logs = "".join(path.read_text(errors="replace") for path in cluster.log_folder.glob("taskmanager-*"))
    assert re.search(rf"pythonEnv {archive}: unpacked /\S+/python-files/\S+/akdl_env_\w+ in", logs)


def test_an_error_on_a_task_manager_reaches_the_caller(cluster: FlinkCluster) -> None:
    """The last test: Flink 2.3 may end a TaskManager when a job with several Python operators in one slot fails."""
    op = script_op("fail.py", "x BIGINT", 3, userParams={"way": "raise"})
    with pytest.raises(TaskError, match=r"(chief|worker) \d \(fail.py\): the script failed: ValueError: this script"):
        sequence(getMLEnv().btenv, 100).link(op).collectToDataframe()
