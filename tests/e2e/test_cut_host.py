"""A host of a cluster whose wire is cut while a job runs on it. It takes a minute: set
AKDL_TEST_NETWORK.
"""

from __future__ import annotations

import os
import pathlib
import threading
import time

import pytest

from bridge.exceptions import BridgeError
from operators import getMLEnv, resetEnv, useRemoteEnv
from tests.e2e.jobs import script_op, sequence
from tests.e2e.test_stopped_worker import SCRIPT
from tests.support.flink_cluster import flink_cluster
from tests.support.leftovers import DEADLINE_S, task_processes, wait_until
from tests.support.network import network, why_not

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(
        "AKDL_TEST_NETWORK" not in os.environ, reason="takes a minute: set AKDL_TEST_NETWORK"
    ),
]
# milliseconds; by default 10 and 50 s
HEARTBEATS = {"heartbeat.interval": "1000", "heartbeat.timeout": "5000"}


@pytest.mark.fault("network")
def test_a_host_that_is_cut_off_fails_the_job_and_keeps_no_process(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: pathlib.Path
) -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with (
        network(2, wires=True) as hosts,
        flink_cluster(
            tmp_path_factory.mktemp("cluster"), 2, hosts=hosts, options=HEARTBEATS
        ) as cluster,
    ):
        useRemoteEnv(cluster.host, cluster.rest_port, 2)
        script = tmp_path / "main.py"
        script.write_text(SCRIPT.format(folder=tmp_path))
        op = script_op("waits.py", "x INT", workers=2)
        op.setUserFiles([str(script)]).setMainScriptFile(str(script))
        result = sequence(getMLEnv().btenv, 10).link(op)
        cut: list[float] = []

        def cut_off() -> None:
            wait_until(lambda: len(list(tmp_path.glob("begun-*"))) == 2, "both scripts run", 300)
            hosts.wires[1].is_cut = True
            cut.append(time.monotonic())

        cutter = threading.Thread(target=cut_off)
        cutter.start()
        with pytest.raises(BridgeError) as caught:
            result.collectToDataframe()
        cutter.join()
        print(
            f"the job failed {time.monotonic() - cut[0]:.0f} s after its host was cut off: {caught.value}"
        )
        wait_until(
            lambda: not task_processes(),
            "the scripts of both hosts have ended, while the wire is cut",
            2 * DEADLINE_S,
        )
        print(f"all had ended after {time.monotonic() - cut[0]:.0f} s")
        assert hosts.hosts[1].address in str(caught.value)
    resetEnv()
