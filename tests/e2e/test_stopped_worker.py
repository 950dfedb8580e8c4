"""A Python worker of a cluster that is stopped, not dead. It takes minutes: set
AKDL_TEST_STOPPED_WORKER.
"""

from __future__ import annotations

import os
import pathlib
import signal
import threading
import time

import psutil
import pytest

from operators import BatchOperator, getMLEnv, resetEnv, useRemoteEnv
from tests.e2e.jobs import script_op, sequence
from tests.support.deadline import DEADLINE_S
from tests.support.flink_cluster import flink_cluster
from tests.support.leftovers import is_running, task_processes, wait_until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        "AKDL_TEST_STOPPED_WORKER" not in os.environ,
        reason="takes minutes: set AKDL_TEST_STOPPED_WORKER",
    ),
]

SCRIPT = """
import os, pathlib, threading

def main(config):
    assert len(config.tf_context.shares()) == 2  # all members know of each other
    pathlib.Path("{folder}", f"begun-{{os.getpid()}}").touch()
    threading.Event().wait()
"""


def test_a_stopped_worker_is_named_and_killed_so_that_its_job_ends(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: pathlib.Path
) -> None:
    with flink_cluster(tmp_path_factory.mktemp("cluster"), task_managers=2, slots=1) as cluster:
        useRemoteEnv(cluster.host, cluster.rest_port, 2)
        script = tmp_path / "main.py"
        script.write_text(SCRIPT.format(folder=tmp_path))
        op = script_op("waits.py", "x INT", workers=2)
        op.setUserFiles([str(script)]).setMainScriptFile(str(script))
        result = sequence(getMLEnv().btenv, 10).link(op)
        errors: list[str] = []

        def run() -> None:
            try:
                BatchOperator.collectToDataframe(result)
            except Exception as error:
                errors.append(str(error))

        job = threading.Thread(target=run)
        job.start()
        wait_until(lambda: len(list(tmp_path.glob("begun-*"))) == 2, "both scripts run", 300)
        worker = task_processes()[0].ppid()
        assert "beam_boot" in " ".join(psutil.Process(worker).cmdline())
        os.kill(worker, signal.SIGSTOP)
        stopped = time.monotonic()
        job.join(10 * DEADLINE_S)
        assert not job.is_alive()
        print(
            f"the job ended {time.monotonic() - stopped:.0f} s after its worker was stopped: {errors[0][:500]}"
        )
        wait_until(
            lambda: not is_running(worker) and not task_processes(),
            "the worker and all scripts have ended",
            120,
        )
        print(f"all had ended after {time.monotonic() - stopped:.0f} s")
        assert "has not reported for 30 s" in errors[0] or "has not answered for 30 s" in errors[0]
    resetEnv()
