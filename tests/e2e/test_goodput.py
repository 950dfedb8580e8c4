"""A training of four workers of which one is killed again and again: the share of the time in which
it did useful work.

`make test-goodput` kills one every minute for 20 minutes; benchmarks/README.md has the result.
"""

from __future__ import annotations

import os
import random
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from bridge.member.status import LOST, WORK
from operators import TF2TableModelTrainBatchOp, resetEnv, useRemoteEnv, waitForJob
from operators.progress.record import read_record
from operators.progress.time_split import added, described, percentages
from tests.akdl.keras.support import SCRIPTS
from tests.e2e.jobs import points
from tests.support.deadline import DEADLINE_S
from tests.support.flink_cluster import FlinkCluster, flink_cluster

MINUTES = float(os.environ.get("AKDL_TEST_GOODPUT_MINUTES", "0"))
FAILURE_S = float(os.environ.get("AKDL_TEST_FAILURE_S", "60"))
WORKERS = 4
pytestmark = [pytest.mark.cluster, pytest.mark.tf, pytest.mark.slow, pytest.mark.own_processes]
RESTARTS = {
    "restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "1 s",
}  # fmt: skip
TRAINING = {
    "train_data_args": {"file": "${DATASET_FILE}$"}, "batch_size": 20, "epochs": 10**6, "optimizer": "SGD",
    "loss": "binary_crossentropy",
}  # fmt: skip


def scripts(cluster: FlinkCluster) -> list[psutil.Process]:
    found = []
    for manager in cluster.task_manager_pids:
        for each in psutil.Process(manager).children(recursive=True):
            with suppress(psutil.Error):
                if "akdl.entry" in each.cmdline() and each.status() != psutil.STATUS_ZOMBIE:
                    found.append(each)
    return found


@pytest.mark.skipif(not MINUTES, reason="much as tests of restarts: set AKDL_TEST_GOODPUT_MINUTES")
def test_goodput_accounts_for_time_lost_by_failures(tmp_path: Path) -> None:
    killed: list[str] = []

    def kill_until_the_end(cluster: FlinkCluster, op: TF2TableModelTrainBatchOp) -> None:
        draw, end = random.Random(7), time.monotonic() + 2 * DEADLINE_S * MINUTES
        while (
            not over.wait(min(FAILURE_S, max(end - time.monotonic(), 0.0)))
            and time.monotonic() < end
        ):
            running = scripts(cluster)
            if running:
                victim = draw.choice(running)
                killed.append(f"{time.monotonic() - end + 60 * MINUTES:.0f} s")
                victim.kill()
        op.stop()

    over = threading.Event()
    (tmp_path / "cluster").mkdir()
    with flink_cluster(tmp_path / "cluster", task_managers=3, slots=2) as cluster:
        table_env = useRemoteEnv(cluster.host, cluster.rest_port, 2, config=RESTARTS).btenv
        table_env.execute_sql(
            "CREATE TEMPORARY TABLE trained (model_id BIGINT, model_info STRING) WITH ('connector' = 'blackhole')"
        )
        script = str(SCRIPTS / "rows.py")
        op = TF2TableModelTrainBatchOp(
            userFiles=[script], mainScriptFile=script, userParams={"config": TRAINING}, numWorkers=WORKERS, numPSs=0,
            intraOpParallelism=1, checkpointDir=str(tmp_path / "checkpoints"), logDir=str(tmp_path / "logs"),
        )  # fmt: skip
        trained = points(table_env, 2000).link(op).getOutputTable()
        killer = threading.Thread(target=kill_until_the_end, args=(cluster, op))
        killer.start()
        try:
            waitForJob(trained.execute_insert("trained"))
        finally:
            over.set()
            killer.join()
            resetEnv()
    (path,) = (tmp_path / "logs").glob("*.jsonl")
    record = read_record(path.read_text())
    workers = [samples[-1][1] for samples in record.samples.values()]
    time_s = added(status.time_s for status in workers)
    print(
        f"{record.total_s:.0f} s, {len(killed)} kills after {', '.join(killed)}; step {max(each.step for each in workers):,}"
    )
    print(f"goodput {percentages(time_s).get(WORK, 0)}%: {described(time_s)}")
    assert len(workers) == WORKERS and sum(time_s.values()) == pytest.approx(
        WORKERS * record.total_s, rel=0.1
    )
    assert not killed or time_s[LOST] > 0
