"""Programs that Flink starts: by `flink run`, and as an application. The hosts have Flink's side,
and nothing of ours.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator

import pytest

from tests.e2e.jobs import SCRIPTS
from tests.support.environments import make_environment, pack
from tests.support.flink_cluster import (
    FlinkCluster,
    flink_application,
    flink_cluster,
    flink_run,
    wait_for_log,
)
from tests.support.installs import make_driver, make_flink_side, wheel
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = pytest.mark.cluster

JOB = str(SCRIPTS / "submitted_job.py")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_flink_side(tmp_path_factory.mktemp("python") / "host")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> str:
    return make_driver(tmp_path_factory.mktemp("python") / "driver")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A packed environment: the hosts' Python has no TensorFlow's side, so no script runs without
    it.
    """
    folder = tmp_path_factory.mktemp("archive")
    return pack(make_environment(folder / "made"), str(folder / "env.tar.gz"))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, host: str) -> Iterator[FlinkCluster]:
    with flink_cluster(
        tmp_path_factory.mktemp("cluster"), task_managers=1, slots=3, python=host
    ) as running:
        yield running


def check(sink: pathlib.Path, chunk_rows: int = 1) -> None:
    rows = [
        tuple(map(int, line.split(",")))
        for path in sink.iterdir()
        for line in path.read_text().splitlines()
    ]
    assert sorted(number for _, number in rows) == list(range(300)), "each row once"
    shares = [[one for one, _ in rows].count(worker) for worker in range(3)]
    assert max(shares) - min(shares) <= 3 * chunk_rows, (
        "as many for each worker, but one chunk per subtask of the source"
    )


def wait_for_end(cluster: FlinkCluster, printed: str) -> None:
    (job,) = re.findall(r"submitted with JobID (\w+)", printed)
    wait_until(
        lambda: cluster.rest(f"/jobs/{job}")["state"] == "FINISHED",
        f"{job} has finished",
        3 * DEADLINE_S,
    )


@pytest.mark.long
def test_flink_run_submits_a_program_that_succeeds(
    cluster: FlinkCluster, driver: str, archive: str, tmp_path: pathlib.Path
) -> None:
    printed = flink_run(
        cluster,
        "-p",
        "2",
        "-pyclientexec",
        driver,
        "-py",
        JOB,
        "batch",
        str(tmp_path / "sink"),
        archive,
    )
    assert "batch with a parallelism of 2 was submitted" in printed
    wait_for_end(cluster, printed)
    check(tmp_path / "sink")
    # it travelled
    wait_for_log(cluster, rf"pythonEnv {archive}: unpacked /\S+/python-files/\S+/akdl_env_\w+ in")


@pytest.mark.long
def test_flink_run_detached_submits_a_program_with_our_wheel(
    cluster: FlinkCluster, host: str, archive: str, tmp_path: pathlib.Path
) -> None:
    printed = flink_run(
        cluster,
        "-d",
        "-pyfs",
        str(wheel()),
        "-pyclientexec",
        host,
        "-py",
        JOB,
        "stream",
        str(tmp_path / "sink"),
        archive,
    )
    assert "useLocalEnv: this program was submitted to Flink, so its jobs run there" in printed
    assert "stream with a parallelism of 3 was submitted" in printed
    wait_for_end(cluster, printed)
    check(tmp_path / "sink", 10)


def test_application_cluster_runs_a_program_and_ends_with_it(
    host: str, driver: str, archive: str, tmp_path: pathlib.Path
) -> None:
    """The JobManager runs the program, and ends with its job."""
    (tmp_path / "cluster").mkdir()
    arguments = ["-pyclientexec", driver, "-py", JOB, "batch", str(tmp_path / "sink"), archive]
    with flink_application(tmp_path / "cluster", arguments, slots=3, python=host) as job_manager:
        assert job_manager.wait(6 * DEADLINE_S) == 0
    check(tmp_path / "sink")
