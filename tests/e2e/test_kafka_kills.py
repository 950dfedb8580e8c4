"""Kafka to Kafka while parts of the job and the broker are killed: a reader of committed messages counts the ids at both ends.

`make test-kafka`, a minute for each kill; docs/reliability.md has the results.
"""

from __future__ import annotations

import os
import pathlib
import random
from collections import Counter
from collections.abc import Iterator

import psutil
import pytest

from operators import (
    MLEnv,
    StreamOperator,
    TensorFlow2StreamOp,
    TFSavedModelPredictStreamOp,
    resetEnv,
    useLocalEnv,
    useRemoteEnv,
)
from tests.akdl.serving import models
from tests.e2e.streams import counting
from tests.e2e.test_event_time import same
from tests.e2e.test_stream_checkpoints import checkpoints
from tests.support.flink_cluster import FlinkCluster, flink_cluster
from tests.support.kafka import Broker
from tests.support.leftovers import wait_until

KILLS = int(os.environ.get("AKDL_TEST_KILLS", "0"))
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.own_processes,
    pytest.mark.skipif(not KILLS, reason="takes a minute for each kill: make test-kafka"),
]
KINDS = ("process", "broker", "Python worker", "TaskManager")
PER_SECOND = 300
WORDS = {"process": "akdl.entry", "model": "akdl.serving.model_server", "Python worker": "pyflink.fn_execution"}


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    spare = sum(number % len(KINDS) == KINDS.index("TaskManager") for number in range(KILLS))
    with flink_cluster(tmp_path_factory.mktemp("cluster"), task_managers=1 + spare, slots=2) as found:
        yield found


def kill(kind: str, cluster: FlinkCluster, broker: Broker, draw: random.Random) -> None:
    if kind == "broker":
        broker.kill()
        broker.start()
        return
    managers = [psutil.Process(pid) for pid in cluster.task_manager_pids if psutil.pid_exists(pid)]
    managers = [each for each in managers if each.status() != psutil.STATUS_ZOMBIE]
    if kind == "TaskManager":
        draw.choice([each for each in managers if each.children()]).kill()
        return
    words = (WORDS[kind], WORDS["model"]) if kind == "process" else (WORDS[kind],)
    children = [child for manager in managers for child in manager.children(recursive=True)]
    draw.choice([each for each in children if any(word in " ".join(each.cmdline()) for word in words)]).kill()


def ids(env: MLEnv, table: str) -> Counter[int]:
    return Counter(env.stenv.sql_query(f"SELECT id FROM {table}").to_pandas()["id"].tolist())  # through Arrow, as it is fast


@pytest.mark.fault("jobs", "Kafka behind a predictor has each row once, and behind a script at least once, whatever is killed")
def test_what_is_in_kafka_after_kills(kafka: Broker, cluster: FlinkCluster, tmp_path: pathlib.Path) -> None:
    columns, ends = (
        "id BIGINT, p BIGINT",
        {"scan.bounded.mode": "latest-offset", "properties.isolation.level": "read_committed"},
    )
    here = useLocalEnv(1, config={"jars": ["kafka"]})
    kafka.table(here.stenv, "fed", "id BIGINT", topic="kills_in")
    for name, table_columns in {"kills_in": "id BIGINT", "once": columns, "least": columns}.items():
        kafka.table(here.stenv, f"{name}_read", table_columns, topic=name, **ends)
    feed = counting(here.stenv, 10**6, PER_SECOND).getOutputTable().execute_insert("fed").get_job_client()

    config = {**checkpoints(tmp_path), "execution.checkpointing.interval": "1 s", "jars": ["kafka"]}
    there = useRemoteEnv(cluster.host, cluster.rest_port, 2, config=config).stenv
    kafka.table(there, "kills_in", "id BIGINT")
    once = {
        "sink.delivery-guarantee": "exactly-once", "sink.transactional-id-prefix": "kills",
        "properties.transaction.timeout.ms": "600000",
    }  # fmt: skip
    kafka.table(there, "once", columns, **once)
    kafka.table(there, "least", columns)
    fed = "id, id AS k, ARRAY[CAST(id AS FLOAT), CAST(0 AS FLOAT), CAST(0 AS FLOAT)] AS x"
    predictor = TFSavedModelPredictStreamOp(
        modelPath=models.scaled(2.0), outputSchemaStr="p FLOAT", selectedCols=["x", "k"], reservedCols=["id"]
    )
    StreamOperator.fromTable(there.sql_query(f"SELECT {fed} FROM kills_in")).link(predictor)
    script = TensorFlow2StreamOp(
        mainScriptFile=same, outputSchemaStr=columns, numWorkers=1, numPSs=0, replay="uncommitted", userParams={"commits": True}
    )
    StreamOperator.fromTable(there.sql_query("SELECT id, id * 2 AS p FROM kills_in")).link(script)
    statements = there.create_statement_set()
    for name, op in {"once": predictor, "least": script}.items():
        there.create_temporary_view(f"to_{name}", op.getOutputTable())
        statements.add_insert_sql(f"INSERT INTO {name} SELECT id, CAST(p AS BIGINT) FROM to_{name}")
    job = statements.execute().get_job_client()

    def completed() -> int:
        return int(cluster.rest(f"/jobs/{job.get_job_id()}/checkpoints")["counts"]["completed"])

    wait_until(lambda: completed() >= 3, "three checkpoints are complete", 240)
    draw = random.Random(7)
    for number in range(KILLS):
        before = completed()
        kill(KINDS[number % len(KINDS)], cluster, kafka, draw)
        wait_until(lambda before=before: completed() >= before + 3, f"checkpoints complete after kill {number + 1}", 240)
    feed.cancel().result()
    wanted = ids(here, "kills_in_read")
    assert len(wanted) > PER_SECOND

    def all_there() -> bool:
        return all(ids(here, f"{name}_read").keys() >= wanted.keys() for name in ("once", "least"))

    wait_until(all_there, "all ids are in both topics", 120)
    last = completed()
    wait_until(lambda: completed() >= last + 2, "what is under way is committed", 120)
    job.cancel().result()
    found, repeated = ids(here, "once_read"), ids(here, "least_read")
    print(
        f"{KILLS} kills, {wanted.total()} messages: predictor lost {len(wanted - found)}, doubled {(found - wanted).total()}; "
        f"script lost {len(wanted - repeated)}, doubled {(repeated - wanted).total()}"
    )
    assert found == wanted
    assert not wanted - repeated
    resetEnv()
