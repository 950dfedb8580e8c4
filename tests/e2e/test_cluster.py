"""Three TaskManagers with one slot each: a group spreads over them, and every row arrives exactly
once.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import psutil
import pytest

from bridge.table_env import groups_in
from operators import (
    BatchOperator,
    CsvSourceBatchOp,
    TensorFlow2BatchOp,
    TF2TableModelTrainBatchOp,
    TFTableModelPredictBatchOp,
    getMLEnv,
    resetEnv,
    useRemoteEnv,
)
from operators.progress.record import read_record
from operators.tools.running_scripts import stacks, top
from tests.e2e.jobs import points, script_op, sequence, shares
from tests.e2e.test_predict import SCRIPT, no_model_process_is_left
from tests.e2e.test_rows import check
from tests.support.deadline import SLOWER
from tests.support.environments import make_environment, pack
from tests.support.flink_cluster import FlinkCluster, flink_cluster, wait_for_log
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.secret_values import SECRET, TREES, leaks

pytestmark = pytest.mark.cluster
START_S = 10 * DEADLINE_S  # of a script on a machine that is busy with other tests

SAYS = """
import os

def main(config):
    print(config.dataset_length, "rows", flush=True)
    config.report(3, loss=0.5)
    os.makedirs(config.log_dir, exist_ok=True)
    open(os.path.join(config.log_dir, config.task_type), "w").close()
    config.output_writer.write_batch({"id": [0] * config.dataset_length})
"""


WAITS = """
import os, pathlib, time

def main(config):
    pathlib.Path("{folder}/begun").touch()
    while not os.path.exists("{folder}/seen"):
        time.sleep(0.05)
    config.output_writer.write_batch({{"id": [1, 2]}})
"""


HOLDS = """
import os, threading, time
def wants(lock):
    with lock:
        pass
def main(config):
    lock = threading.Lock()
    lock.acquire()
    threading.Thread(target=wants, args=(lock,), name="reader", daemon=True).start()
    while not os.path.exists("{folder}/seen"):
        time.sleep(0.05)
    config.output_writer.write_batch({{"id": [1]}})
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    with flink_cluster(tmp_path_factory.mktemp("cluster"), task_managers=3, slots=1) as running:
        useRemoteEnv(running.host, running.rest_port, 3)
        yield running
        resetEnv()


@pytest.mark.parametrize("mode", ["btenv", pytest.param("stenv", marks=pytest.mark.long)])
def test_rows_arrive_exactly_once_on_three_task_managers(cluster: FlinkCluster, mode: str) -> None:
    """Rows of a batch go on in SQL on the cluster, those of a stream are collected."""
    rows = 30_003
    linked = sequence(getattr(getMLEnv(), mode), rows).link(
        script_op("echo_ids.py", "worker INT, id BIGINT", 3)
    )
    if mode == "btenv":
        table = BatchOperator.fromTable(linked.getOutputTable())
        sums = table.groupBy("worker", "worker, COUNT(id), COUNT(DISTINCT id), SUM(id)")
        found = sums.collectToDataframe().itertuples(index=False)
        check({worker: tuple(each) for worker, *each in found}, rows, 3, 3)
    else:
        check(shares(linked), rows, 3, 3)
    assert len(task_managers_of_last_job(cluster, "TensorFlow2BatchOp")) == 3, (
        "each worker ran on another TaskManager"
    )


def task_managers_of_last_job(cluster: FlinkCluster, operator: str) -> set[Any]:
    """Return the TaskManagers on which an operator of the newest job ran."""
    newest = max(cluster.rest("/jobs/overview")["jobs"], key=lambda job: job["start-time"])
    vertices = cluster.rest(f"/jobs/{newest['jid']}")["vertices"]
    (vertex,) = (
        v["id"] for v in vertices if v["name"].startswith(operator) and "addresses" not in v["name"]
    )
    return {
        tm["taskmanager-id"]
        for tm in cluster.rest(f"/jobs/{newest['jid']}/vertices/{vertex}/taskmanagers")[
            "taskmanagers"
        ]
    }


def test_progress_and_output_of_a_cluster_are_shown(
    cluster: FlinkCluster,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
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
    assert sorted(path.name for path in (tmp_path / "runs").glob("says-py-*/*")) == [
        "chief",
        "worker",
    ], "for TensorBoard"
    assert sorted(record.samples) == ["chief 0", "worker 0"] and record.failed is False
    newest = max(cluster.rest("/jobs/overview")["jobs"], key=lambda job: job["start-time"])
    assert newest["name"] == "says.py"
    assert "[says.py, chief 0] 150 rows\n" in out and "[says.py, worker 0] 150 rows\n" in out, out
    assert record.samples["chief 0"][-1][1].metrics == {"loss": 0.5}


@pytest.mark.tf
def test_a_model_travels_with_the_job_that_predicts(
    cluster: FlinkCluster,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("AKDL_PROGRESS", "1")
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    env = getMLEnv().btenv
    train = TF2TableModelTrainBatchOp(
        userFiles=[], mainScriptFile=str(script), numWorkers=1, numPSs=0
    )
    predict = TFTableModelPredictBatchOp(outputSchemaStr="y DOUBLE", selectedCols=["x0", "x1"])
    found = predict.linkFrom(points(env, 5).link(train), points(env, 1000)).collectToDataframe()
    assert len(found) == 1000
    assert "TFTableModelPredictBatchOp: 1,000 rows in, 1,000 out, " in capfd.readouterr().err
    newest = max(cluster.rest("/jobs/overview")["jobs"], key=lambda job: job["start-time"])
    groups = groups_in(cluster.rest(f"/jobs/{newest['jid']}")["plan"])
    assert [group.rpartition("_")[0] for group in groups] == ["TFTableModelPredictBatchOp"]
    np.testing.assert_allclose(found.y, 2 * found.x0 - found.x1, rtol=1e-4, atol=1e-6)
    no_model_process_is_left()


IN_ENV = """
import os
def main(config):
    assert os.path.getsize("big") == 2_000_000
    config.output_writer.write_batch({"env": [os.environ["TESTED_ENV"]], "named": [os.environ["NAMED"]]})
"""


def test_a_packed_environment_travels_with_the_job(
    cluster: FlinkCluster, tmp_path: pathlib.Path
) -> None:
    """Driver and TaskManagers share this machine, so the log tells which copy was unpacked: the one
    that Flink brought.
    """
    (tmp_path / "main.py").write_text(IN_ENV)
    (tmp_path / "big").write_bytes(bytes(2_000_000))
    archive = pack(make_environment(tmp_path / "made"), str(tmp_path / "env.tar.gz"))
    op = TensorFlow2BatchOp(
        userFiles=[str(tmp_path / "big")], mainScriptFile=str(tmp_path / "main.py"), outputSchemaStr="env STRING, named STRING", numWorkers=3,
        numPSs=0, pythonEnv=archive, envVars=["NAMED=value"],
    )  # fmt: skip
    found = sequence(getMLEnv().btenv, 30).link(op).collectToDataframe()
    place = os.path.join(tempfile.gettempdir(), f"akdl_envs_{os.geteuid()}")
    assert (
        len(found) == 3
        and set(found.named) == {"value"}
        and all(env.startswith(place) for env in found.env)
    )
    assert len(set(found.env)) == 1, "one folder on one host"
    wait_until(lambda: not os.listdir(place), "the environment is gone with its last process")
    wait_for_log(cluster, rf"pythonEnv {archive}: unpacked /\S+/python-files/\S+/akdl_env_\w+ in")


def answers(cluster: FlinkCluster, job: str) -> str:
    """Return all that the REST endpoint, which Flink's pages ask too, says of a cluster and
    a job.
    """
    found, paths = (
        [],
        [
            f"/jobs/{job}{part}"
            for part in ("", "/config", "/plan", "/exceptions", "/checkpoints", "/accumulators")
        ],
    )
    paths += [
        "/jobmanager/config",
        "/jobmanager/environment",
        "/jobmanager/log",
        "/jobmanager/stdout",
        "/jobs/overview",
    ]
    for vertex in cluster.rest(f"/jobs/{job}")["vertices"]:
        paths += [
            f"/jobs/{job}/vertices/{vertex['id']}{part}"
            for part in ("", "/accumulators", "/metrics", "/taskmanagers")
        ]
    for manager in cluster.rest("/taskmanagers")["taskmanagers"]:
        paths += [
            f"/taskmanagers/{manager['id']}{part}"
            for part in ("", "/log", "/stdout", "/logs", "/thread-dump")
        ]
    for path in paths:
        with contextlib.suppress(urllib.error.HTTPError):
            with urllib.request.urlopen(
                f"http://{cluster.host}:{cluster.rest_port}{path}", timeout=DEADLINE_S
            ) as answer:
                found.append(f"{path}\n{answer.read().decode(errors='replace')}")
    assert len(found) > len(paths) / 2
    return "\n".join(found)


def shown(
    command: Callable[[list[str]], int],
    arguments: list[str],
    pattern: str,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """Run a command until it shows a pattern, and return that output: statuses are old, and a busy
    endpoint answers late.
    """
    output = ""

    def is_shown() -> bool:
        nonlocal output
        status = command(arguments)
        output = capsys.readouterr().out
        return status == 0 and re.search(pattern, output) is not None

    wait_until(is_shown, f"{command.__name__} shows {pattern}", START_S)
    return output


def command_lines() -> str:
    """Return the command lines of all processes of this host, as any of its users sees them."""
    return "\n".join(
        " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])
    )


@pytest.mark.fault(
    "security",
    "Secrets of a job on a cluster appear neither in REST, nor in logs of akdl, nor in command lines",
)
def test_secrets_are_neither_in_the_rest_endpoint_nor_in_logs_nor_in_command_lines(
    cluster: FlinkCluster, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script, table = tmp_path / "main.py", tmp_path / f"password={SECRET}"
    script.write_text(WAITS.format(folder=tmp_path))
    table.mkdir()
    (table / "rows.csv").write_text("id\n1\n2\n")
    source = CsvSourceBatchOp(
        filePath=str(table / "rows.csv"), schemaStr="id BIGINT", ignoreFirstLine=True
    )
    op = TensorFlow2BatchOp(
        userFiles=[str(script)], mainScriptFile=str(script), outputSchemaStr="id BIGINT", numWorkers=1, numPSs=0,
        envVars=[f"DB_PASSWORD={SECRET}"], checkpointDir=f"s3://me:{SECRET}@bucket/models", userParams={"trees": TREES},
    )  # fmt: skip
    rows: list[int] = []
    job = threading.Thread(target=lambda: rows.append(len(source.link(op).collectToDataframe())))
    job.start()
    try:
        wait_until(
            lambda: (tmp_path / "begun").exists() or not job.is_alive(), "the script runs", START_S
        )
        newest = max(cluster.rest("/jobs/overview")["jobs"], key=lambda job: job["start-time"])
        commands = command_lines()
        said = answers(cluster, newest["jid"])
        address = [f"{cluster.host}:{cluster.rest_port}"]
        live = shown(
            stacks,
            address,
            r"TensorFlow2BatchOp, main.py, chief 0: .*\n(.*\n)+?.*, in main\n",
            capsys,
        )
        live += shown(top, address, "rows/s", capsys)
    finally:
        (tmp_path / "seen").touch()
        job.join()
    logs = "\n".join(
        path.read_text(errors="replace") for path in cluster.log_folder.iterdir() if path.is_file()
    )
    # Flink writes the addresses that it reads itself
    logs = re.sub(".*FileSourceSplit.*", "", logs)
    assert (
        rows == [2]
        and "akdl.entry" in commands
        and "main.py" in logs
        and "TensorFlow2BatchOp" in said
    ), said
    places = {"REST": said, "akdl top": live, "command lines": commands, "logs": logs}
    assert {place: leaks(text) for place, text in places.items() if leaks(text)} == {}


@pytest.mark.fault(
    "jobs",
    "Python workers of a cluster that block before code of akdl runs are told after startTimeout",
)
def test_blocked_python_workers_are_reported_after_the_timeout(
    cluster: FlinkCluster, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    useRemoteEnv(cluster.host, cluster.rest_port, 1)
    (tmp_path / "sitecustomize.py").write_text(
        f"import os, time\nwhile not os.path.exists({str(tmp_path / 'told')!r}):\n    time.sleep(0.1)\n"
    )
    getMLEnv().btenv.add_python_file(str(tmp_path / "sitecustomize.py"))
    limit_s = 8.0 * SLOWER
    op = script_op("echo_ids.py", "worker INT, id BIGINT", 1, startTimeout=limit_s)
    rows: list[int] = []
    job = threading.Thread(
        target=lambda: rows.append(len(sequence(getMLEnv().btenv, 9).link(op).collectToDataframe()))
    )
    job.start()
    said = ""

    def told() -> bool:
        nonlocal said
        said += capfd.readouterr().err
        return "Python workers still start" in said

    try:
        wait_until(told, "the program says so", 4 * DEADLINE_S)
    finally:
        (tmp_path / "told").touch()
        job.join()
        useRemoteEnv(cluster.host, cluster.rest_port, 3)
    assert re.search(
        rf"Flink's Python workers still start after {limit_s:g} s \(startTimeout\) on [\w.]+:\d+, and the job waits",
        said,
    ), said
    assert rows == [9]


@pytest.mark.long
@pytest.mark.fault(
    "scripts",
    "`akdl top` and `akdl stacks` show one job of a cluster, with all threads of its scripts",
)
def test_top_and_stacks_show_the_chosen_one_of_two_jobs(
    cluster: FlinkCluster, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    useRemoteEnv(cluster.host, cluster.rest_port, 1)
    jobs = []
    for name in ("first.py", "second.py"):
        (tmp_path / name).write_text(HOLDS.format(folder=tmp_path))
        op = TensorFlow2BatchOp(
            userFiles=[],
            mainScriptFile=str(tmp_path / name),
            outputSchemaStr="id BIGINT",
            numWorkers=1,
            numPSs=0,
        )
        jobs.append(
            threading.Thread(target=sequence(getMLEnv().btenv, 1).link(op).collectToDataframe)
        )
        jobs[-1].start()
    useRemoteEnv(cluster.host, cluster.rest_port, 3)
    address = f"{cluster.host}:{cluster.rest_port}"
    try:
        for name in ("first.py", "second.py"):
            shown(stacks, [address, name], r"Thread reader:\n(  .*\n)*  .*, in wants\n", capsys)
        ids = {
            each["name"]: each["jid"]
            for each in cluster.rest("/jobs/overview")["jobs"]
            if each["state"] == "RUNNING"
        }
        for job, name, other in (
            ("first.py", "first.py", "second.py"),
            (ids["second.py"], "second.py", "first.py"),
        ):
            found = shown(
                stacks, [address, job], r"Thread MainThread:\n(  .*\n)*  .*, in main\n", capsys
            )
            found += shown(top, [address, job], "rows/s", capsys)
            assert f"TensorFlow2BatchOp, {name}" in found and other not in found, found

        def names_the_others() -> bool:
            assert top([address, "third.py"]) == 1
            return f"{ids['first.py']} (first.py)" in capsys.readouterr().err

        wait_until(names_the_others, "the error of an unknown job names those that run")
    finally:
        (tmp_path / "seen").touch()
        for each in jobs:
            each.join()
