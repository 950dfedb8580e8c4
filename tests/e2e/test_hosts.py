"""Three hosts with one TaskManager of one slot each, as network namespaces: what a group does
across real addresses.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from akdl.storage.model_archive import pack
from bridge.exceptions import ConfigurationError
from operators import (
    MemSourceBatchOp,
    TF2TableModelTrainBatchOp,
    TFTableModelPredictBatchOp,
    TFTableModelPredictStreamOp,
    getMLEnv,
    resetEnv,
    useRemoteEnv,
)
from operators.flink.slots import Need, check_slots
from tests.akdl.serving import models
from tests.e2e.jobs import points, script_op, sequence, train_op
from tests.e2e.stream_jobs import SentModels, running
from tests.e2e.streams import counting
from tests.e2e.test_predict import SCRIPT, no_model_process_is_left
from tests.e2e.test_predict_stream_cluster import ONES, TOOK_OVER
from tests.e2e.test_rows import check
from tests.e2e.test_training import SGD
from tests.support.flink_cluster import FlinkCluster, flink_cluster
from tests.support.network import Network, network, why_not
from tests.support.webhdfs import webhdfs

pytestmark = [pytest.mark.estimator, pytest.mark.cluster, pytest.mark.tf]

FAILS_ONCE = """
import pathlib, socket
import echo_ids

def main(config):
    place = pathlib.Path({folder!r})
    if config.task_index == 1 and not (place / "failed").exists():
        (place / "failed").touch()
        raise ValueError("once")
    extra = sorted(row["id"] for row in config.extra_inputs[0].rows())
    found = "" if extra == list(range(5000)) else f" has {{len(extra)}} rows of the extra input"
    (place / "hosts" / f"{{config.task_type}}-{{config.task_index}}").write_text(socket.gethostname() + found)
    echo_ids.main(config)
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Network]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with network(3) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, hosts: Network) -> Iterator[FlinkCluster]:
    with flink_cluster(
        tmp_path_factory.mktemp("hosts"), task_managers=3, slots=1, hosts=hosts
    ) as running:
        useRemoteEnv(running.host, running.rest_port, 3)
        yield running
        resetEnv()


def test_each_host_has_a_task_manager(cluster: FlinkCluster, hosts: Network) -> None:
    # The path is such as pekko.tcp://flink@10.199.7.2:35555/user/rpc/taskmanager_0
    paths = [manager["path"] for manager in cluster.rest("/taskmanagers")["taskmanagers"]]
    addresses = sorted(path.partition("@")[2].partition(":")[0] for path in paths)
    assert addresses == sorted(host.address for host in hosts.hosts)


def test_the_slots_of_the_hosts_are_counted(cluster: FlinkCluster) -> None:
    config = getMLEnv().btenv.get_config()
    check_slots(config, [Need.of_group("TensorFlow2BatchOp", 3, 0)])
    with pytest.raises(
        ConfigurationError, match=r"needs 4 slots at once .* has 3 in all \(3 TaskManagers\)"
    ):
        check_slots(config, [Need.of_group("TensorFlow2BatchOp", 3, 1)])


@pytest.mark.long
@pytest.mark.fault("jobs")
def test_a_restart_delivers_rows_once_and_extra_inputs_to_each_host_again(
    cluster: FlinkCluster, hosts: Network, tmp_path: pathlib.Path
) -> None:
    """Each script runs on another host, and gets the whole extra input, which Flink brings to one
    of them. The result goes to files: a program that collects rows ends with a restart.
    """
    rows = 100_003
    (tmp_path / "hosts").mkdir()
    op = script_op("echo_ids.py", "worker INT, id BIGINT", 3)
    script = tmp_path / "fails_once.py"
    script.write_text(FAILS_ONCE.format(folder=str(tmp_path)))
    op.setUserFiles([str(script), *op.getUserFiles()]).setMainScriptFile(str(script))
    table_env = getMLEnv().btenv
    table_env.execute_sql(f"""
        CREATE TEMPORARY TABLE echoed (worker INT, id BIGINT)
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/echoed', 'format' = 'csv')""")
    linked = op.linkFrom(sequence(table_env, rows), sequence(table_env, 5000))
    options = {"type": "fixed-delay", "fixed-delay.attempts": "1", "fixed-delay.delay": "10 ms"}
    try:
        for key, value in options.items():
            table_env.get_config().set(f"restart-strategy.{key}", value)
        linked.getOutputTable().execute_insert("echoed").wait()
    finally:
        table_env.get_config().set("restart-strategy.type", "none")
    assert (tmp_path / "failed").exists()
    files = [file for file in (tmp_path / "echoed").rglob("[!.]*") if file.is_file()]
    echoed = pd.concat(pd.read_csv(file, names=["worker", "id"]) for file in files)
    sums = echoed.groupby("worker")["id"].agg(["count", "nunique", "sum"])
    check({row.Index: tuple(row)[1:] for row in sums.itertuples()}, rows, 3, 3)
    assert sorted(file.read_text() for file in (tmp_path / "hosts").iterdir()) == sorted(
        host.name for host in hosts.hosts
    )


@pytest.mark.tf
def test_a_group_trains_across_hosts(cluster: FlinkCluster, hosts: Network) -> None:
    """TensorFlow's own servers and the group line find each other at the addresses that the hosts
    announce.
    """
    op = train_op(
        "full_batch_sgd.py",
        SGD,
        numWorkers=3,
        numPSs=0,
        userParams={"steps": 30},
        hostNetwork=f"{hosts.address}/24",
    )
    (row,) = points(getMLEnv().stenv, 61).link(op).collectToDataframe().itertuples()
    assert (row.strategy, row.rows) == ("CollectiveAllReduceStrategy", 61)
    assert json.loads(row.weights)[0] > 0.1 > -0.1 > json.loads(row.weights)[1]


@pytest.mark.tf
def test_each_host_fetches_the_model_from_the_address_of_model_dir(
    cluster: FlinkCluster, hosts: Network, tmp_path: pathlib.Path
) -> None:
    """The chief writes it there, from whichever host it runs on. Nothing of it travels with the job
    that predicts.
    """
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    env = getMLEnv().btenv
    (tmp_path / "storage").mkdir()
    with webhdfs(tmp_path / "storage", hosts.address) as storage:
        train = TF2TableModelTrainBatchOp(
            userFiles=[],
            mainScriptFile=str(script),
            numWorkers=1,
            numPSs=0,
            modelDir=f"{storage.url}/models",
        )
        predict = TFTableModelPredictBatchOp(outputSchemaStr="y DOUBLE", selectedCols=["x0", "x1"])
        linked = predict.linkFrom(points(env, 5).link(train), points(env, 1000))
        assert "placed" not in env.get_config().get("python.files", "")
        found = linked.collectToDataframe()
    assert len(found) == 1000
    np.testing.assert_allclose(found.y, 2 * found.x0 - found.x1, rtol=1e-4, atol=1e-6)
    assert {host.address for host in hosts.hosts} <= set(storage.readers), (
        "each host brought it by itself"
    )
    no_model_process_is_left()


@pytest.mark.long
@pytest.mark.tf
def test_a_model_of_a_stream_takes_over_on_each_host(
    cluster: FlinkCluster, hosts: Network, tmp_path: pathlib.Path
) -> None:
    """Flink brings it to one subtask of each."""
    table = MemSourceBatchOp(list(pack(models.scaled(1.0))), "model_id BIGINT, model_info STRING")
    sent = SentModels(tmp_path / "sent")
    op = TFTableModelPredictStreamOp(
        table, outputSchemaStr="p DOUBLE", selectedCols=["x", "k"], reservedCols=["id"]
    )
    op.linkFrom(counting(getMLEnv().stenv, 1_000_000, per_second=100).select(ONES), sent.stream())

    def logged() -> list[int]:
        files = cluster.log_folder.glob("taskmanager-*")
        return [
            count
            for count in (file.read_text("utf-8", "replace").count(TOOK_OVER) for file in files)
            if count
        ]

    with running(op) as job:
        job.wait_for(lambda: job.predicts(3.0), "the first model predicts")
        sent.send(list(pack(models.scaled(2.0))))
        job.wait_for(
            lambda: sum(logged()) >= len(hosts.hosts),
            "the second model has taken over on each host",
        )
        assert logged() == [1] * len(hosts.hosts)
        job.wait_for(lambda: job.predicts(6.0), "the second model predicts")
    ids = [row[0] for row in job.rows]
    assert len(set(ids)) == len(ids), "each row has come once"
    no_model_process_is_left()
