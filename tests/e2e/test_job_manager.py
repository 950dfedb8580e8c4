"""A cluster whose JobManager dies under a job."""

from __future__ import annotations

import pathlib
import threading

import psutil
import pytest

from bridge.exceptions import JobError
from operators import getMLEnv, resetEnv, useRemoteEnv
from tests.e2e.jobs import script_op, sequence
from tests.support.flink_cluster import flink_cluster
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = pytest.mark.cluster


@pytest.mark.fault("jobs", "A cluster whose JobManager has died is an error that says so")
def test_a_cluster_that_no_longer_answers_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "cluster").mkdir()
    marker = tmp_path / "runs"
    with flink_cluster(tmp_path / "cluster", task_managers=1, slots=1) as cluster:
        # By default each of several calls is tried for ten seconds.
        useRemoteEnv(
            cluster.host,
            cluster.rest_port,
            1,
            config={"rest.retry.max-attempts": 2, "rest.retry.delay": 100},
        )
        rows = sequence(getMLEnv().btenv, 10).link(
            script_op("waits.py", "id BIGINT", userParams={"marker": str(marker)})
        )

        def kill() -> None:
            wait_until(marker.exists, "the script runs", 3 * DEADLINE_S)
            psutil.Process(cluster.job_manager_pid).kill()

        killer = threading.Thread(target=kill)
        killer.start()
        with pytest.raises(JobError) as caught:
            rows.collectToDataframe()
        killer.join()
        resetEnv()
    assert "The Flink cluster no longer answers: check that its JobManager" in str(caught.value)
