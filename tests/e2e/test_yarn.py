"""Jobs on YARN, as applications and in a session: two NodeManagers, HDFS, and Pythons that YARN ships
as archives.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import sys
from collections.abc import Iterator

import psutil
import pytest
import requests

from operators import BatchOperator, TensorFlow2BatchOp, getMLEnv, resetEnv, useRemoteEnv
from operators.errors.missing_jars import flink_version
from operators.tools.doctor import OK, cluster
from operators.tools.running_scripts import stacks, top
from tests.e2e.jobs import SCRIPTS, sequence
from tests.e2e.test_cluster import shown
from tests.support.environments import INTERPRETER, make_environment, pack
from tests.support.installs import make_driver
from tests.support.leftovers import DEADLINE_S, is_running, wait_until
from tests.support.yarn import Yarn, yarn_cluster

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.own_processes,
    pytest.mark.long,
    pytest.mark.timeout(1200),
]

PYTHON = "flink.tar.gz/bin/python"  # in the folder of each container
OPTIONS = (
    "-Djobmanager.memory.process.size=1g",
    "-Dtaskmanager.memory.process.size=2g",
    # on busy machines the RPC system takes longer than its 10 s
    "-Dpekko.ask.timeout=120s",
    "-Dpekko.startup-timeout=120s",
)
ENOUGH = 500


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    with yarn_cluster(tmp_path_factory.mktemp("yarn")) as running:
        yield running


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_driver(tmp_path_factory.mktemp("python") / "driver")


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory, driver: str) -> list[str]:
    """Options of Flink that ship Flink's side and the program to all containers, as archives."""
    folder = tmp_path_factory.mktemp("shipped")
    made = make_environment(folder / "made")
    (made / "bin" / "python3").write_text(INTERPRETER.replace(sys.executable, driver))
    flink = pack(made, str(folder / "flink.tar.gz"))
    program = shutil.make_archive(str(folder / "program"), "zip", SCRIPTS / "yarn")
    return [f"-Dyarn.ship-archives={flink};{program}", f"-Dpython.executable={PYTHON}", *OPTIONS]


@pytest.fixture(scope="module")
def tensorflow(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An archive that travels with jobs: Flink's Python in the containers has no TensorFlow."""
    folder = tmp_path_factory.mktemp("tensorflow")
    return pack(make_environment(folder / "made"), str(folder / "tf.tar.gz"))


def lines(sink: pathlib.Path) -> list[list[str]]:
    """Return the rows of files that are final."""
    return [
        line.split(",") for path in sink.glob("part-*") for line in path.read_text().splitlines()
    ]


def check_predictions(sink: pathlib.Path) -> None:
    found = [(float(x), float(y)) for x, y in lines(sink)]
    assert sorted(x for x, _ in found) == pytest.approx([number / 1000 for number in range(1000)])
    assert [y for _, y in found] == pytest.approx([3 * x for x, _ in found], rel=1e-3)


def run_application(yarn: Yarn, *options: str) -> str:
    """Start an application, and return its id."""
    # `run` starts applications since Flink 2.0.
    action = "run-application" if flink_version().startswith("1.") else "run"
    command = ["flink", action, "-d", "-t", "yarn-application", "-pyclientexec", PYTHON]
    return yarn.application(yarn.flink(*command, *options))


def test_an_application_trains_in_two_containers_and_predicts(
    yarn: Yarn, shipped: list[str], tensorflow: str, tmp_path: pathlib.Path
) -> None:
    sink = tmp_path / "sink"
    program = ["-py", "program.zip/program.py", "train", str(sink), tensorflow]
    application = run_application(yarn, *shipped, *program)
    assert yarn.wait_for_end(application) == "SUCCEEDED"
    check_predictions(sink)
    logs = yarn.logs(application, "akdl-*.log")
    trained = [log for log in logs if "trained with 1000 rows of 2 workers" in log.read_text()]
    assert len({log.parent for log in trained}) == 2, "each worker has a container of its own"


def test_a_session_trains_predicts_and_grows(
    yarn: Yarn, shipped: list[str], driver: str, tensorflow: str, tmp_path: pathlib.Path
) -> None:
    printed = yarn.flink("yarn-session.sh", "-d", *shipped)
    application = yarn.application(printed)
    (address,) = re.findall(r"JobManager Web Interface: http://(\S+)", printed)
    try:
        # without a TaskManager
        for each in (address, f"{yarn.web}/proxy/{application}"):
            assert {finding.state for finding in cluster(each)} == {OK}, [*cluster(each)]
        session = ["-t", "yarn-session", f"-Dyarn.application.id={application}", "-pyexec", PYTHON]
        program = ["-py", str(SCRIPTS / "yarn" / "program.py"), "train", str(tmp_path / "sink")]
        yarn.flink("flink", "run", *session, "-pyclientexec", driver, *program, tensorflow)
        check_predictions(tmp_path / "sink")

        host, _, port = address.rpartition(":")
        useRemoteEnv(host, port, 3, config={"python.executable": PYTHON})
        op = TensorFlow2BatchOp(
            userFiles=[str(SCRIPTS / "tfrecords.py")], mainScriptFile=str(SCRIPTS / "echo_ids.py"),
            outputSchemaStr="worker INT, id BIGINT", numWorkers=3, numPSs=0, pythonEnv=tensorflow,
        )  # fmt: skip
        table: BatchOperator = sequence(getMLEnv().btenv, 300).link(op)
        assert sorted(table.collectToDataframe().id) == list(range(300))
    finally:
        resetEnv()
        requests.delete(f"http://{address}/cluster", timeout=DEADLINE_S)
    yarn.wait_for_end(application)


@pytest.mark.fault("jobs", "On YARN, a stream whose container is killed has each row once")
def test_a_stream_has_each_row_once_after_its_container_was_killed(
    yarn: Yarn,
    shipped: list[str],
    tensorflow: str,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sink = tmp_path / "sink"
    options = [
        "-Dexecution.checkpointing.interval=1s",
        f"-Dexecution.checkpointing.dir={yarn.hdfs}/checkpoints",
        "-Drestart-strategy.type=fixed-delay",
        "-Drestart-strategy.fixed-delay.attempts=60",
        "-Drestart-strategy.fixed-delay.delay=1s",
    ]
    program = ["-py", "program.zip/program.py", "count", str(sink), tensorflow]
    application = run_application(yarn, *shipped, *options, *program)
    address = f"{yarn.web}/proxy/{application}"
    wait_until(lambda: len(lines(sink)) > ENOUGH, "rows are final", 6 * DEADLINE_S)
    assert {finding.state for finding in cluster(address)} == {OK}, [*cluster(address)]
    shown(top, [address, "total.py"], r"chief 0", capsys)
    shown(stacks, [address, "total.py"], r", in main\n", capsys)
    (log,) = yarn.logs(application, "akdl-*.log")
    assert log.read_text() == "begins at 0\n"

    (killed,) = (
        each
        for each in psutil.Process().children(recursive=True)
        if each.name() == "java"
        and re.search(rf"/{application}/.* \S*YarnTaskExecutorRunner", " ".join(each.cmdline()))
    )
    below = killed.children(recursive=True)
    killed.kill()
    before = len(lines(sink))
    wait_until(lambda: len(lines(sink)) > before + ENOUGH, "more rows are final", 10 * DEADLINE_S)
    wait_until(lambda: not any(is_running(each.pid) for each in below), "its processes have ended")
    second = yarn.logs(application, "akdl-*.log")
    assert len({log.parent for log in second}) == 2, "the script goes on in another container"
    (job,) = requests.get(f"{address}/jobs", timeout=DEADLINE_S).json()["jobs"]
    requests.get(f"{address}/jobs/{job['id']}/yarn-cancel", timeout=DEADLINE_S)
    yarn.wait_for_end(application)
    found = sorted((int(id), int(total)) for id, total in lines(sink))
    assert found == [(id, id * (id + 1) // 2) for id in range(len(found))]
