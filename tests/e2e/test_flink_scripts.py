"""A cluster that Flink's own scripts have started, as docs/clusters.md says: what a user sees of a
script that runs there.
"""

from __future__ import annotations

import pathlib
import re
import threading

import pytest

from operators import TensorFlow2BatchOp, getMLEnv, resetEnv, useRemoteEnv
from operators.tools.running_scripts import stacks, top
from tests.e2e.jobs import sequence
from tests.e2e.test_cluster import WAITS, shown
from tests.support.flink_cluster import flink_cluster

pytestmark = [pytest.mark.cluster, pytest.mark.own_processes]


@pytest.mark.fault(
    "scripts",
    "Progress, `akdl top`, `akdl stacks` and logs of processes need no variable of a cluster's hosts",
)
def test_a_script_is_seen_on_a_cluster_that_flinks_scripts_started(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AKDL_PROGRESS", "1")
    (folder := tmp_path / "cluster").mkdir()
    script = tmp_path / "waits.py"
    script.write_text('print("begun", flush=True)\n' + WAITS.format(folder=tmp_path))
    op = TensorFlow2BatchOp(
        userFiles=[str(script)], mainScriptFile=str(script), outputSchemaStr="id BIGINT", numWorkers=1, numPSs=0,
    )  # fmt: skip
    with flink_cluster(folder, task_managers=1, slots=2, own_scripts=True) as cluster:
        useRemoteEnv(cluster.host, cluster.rest_port, 1)
        linked = sequence(getMLEnv().btenv, 2).link(op)
        job = threading.Thread(target=linked.collectToDataframe)
        job.start()
        try:
            address = [f"{cluster.host}:{cluster.rest_port}"]
            shown(stacks, address, ", in main\n", capsys)
            shown(top, address, r"chief 0 .* 2 ", capsys)
            (log,) = cluster.log_folder.glob("akdl-*.log")
            assert log.read_text() == "begun\n"
        finally:
            (tmp_path / "seen").touch()
            job.join()
            resetEnv()
        assert re.search(r"^waits.py: 2 rows in, 2 out, ", capsys.readouterr().err, re.MULTILINE)
