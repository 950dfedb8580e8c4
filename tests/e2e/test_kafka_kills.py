"""Kafka to Kafka while parts of the job and the broker are killed: a reader of committed messages
counts the ids at both ends.

CI has one kill, that of a TaskManager. `make test-kafka` takes half a minute for each of
any number, and `make soak-kafka` an hour with many messages and new models; benchmarks/README.md
has the results.
"""

from __future__ import annotations

import os
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import psutil
import pytest

from akdl.serving.model_stream import publish
from operators import (
    StreamOperator,
    TensorFlow2StreamOp,
    TFSavedModelPredictStreamOp,
    resetEnv,
    useLocalEnv,
    useRemoteEnv,
)
from tests.akdl.serving import models
from tests.e2e.jobs import SCRIPTS
from tests.e2e.streams import counting
from tests.e2e.test_stream_checkpoints import checkpoints
from tests.support.flink_cluster import FlinkCluster, flink_cluster
from tests.support.kafka import Broker
from tests.support.leftovers import DEADLINE_S, is_running, wait_until

KILLS = int(os.environ.get("AKDL_TEST_KILLS", "1"))
SOAK_S = float(os.environ.get("AKDL_TEST_SOAK_S", "0"))
KILL_MINUTES = int(os.environ.get("AKDL_TEST_KILL_MINUTES", "5"))
KINDS = os.environ.get(
    "AKDL_TEST_KINDS", "TaskManager,process,Python worker,broker,JobManager,ML_PREDICT"
).split(",")
pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.own_processes]
COLUMNS = "id BIGINT, p BIGINT, t TIMESTAMP_LTZ(3)"
SENT = "sent TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL"
PLACE = "part INT METADATA FROM 'partition' VIRTUAL, place BIGINT METADATA FROM 'offset' VIRTUAL"
NEGATED = "def load():\n    return lambda batch: {'p': -batch['id']}\n"
KERAS_SCRIPT = str(SCRIPTS / "stream" / "learns_weights.py")
BATCH = 50  # of that script
WORDS = {
    "process": ("akdl.entry", "akdl.serving.model_server"), "Python worker": ("pyflink.fn_execution",),
    "TaskManager": ("TaskManagerRunner",), "JobManager": ("StandaloneSessionClusterEntrypoint",),
    "program's JVM": ("TokenGateway",), "broker": ("kafka.Kafka",), "ML_PREDICT": ("operators.serve.ml_predict",),
}  # fmt: skip


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    """A cluster with a spare TaskManager, whose JobManagers have high availability."""
    with flink_cluster(tmp_path_factory.mktemp("cluster"), 2, 2, high_availability=True) as found:
        yield found


def processes(kind: str) -> list[psutil.Process]:
    """Return the processes of a kind; the one that forks Pythons for other tests has the name of
    what it forks.
    """
    found = []
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            command = " ".join(each.cmdline())
            is_part = (
                any(word in command for word in WORDS[kind]) and "python_forks.py" not in command
            )
            if is_part and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each)
    return found


def memory() -> dict[str, int]:
    """Megabytes of the parts of a soak; those of this program and its JVM have no other jobs than
    the one that sends.
    """
    found = {kind: sum(each.memory_info().rss for each in processes(kind)) >> 20 for kind in WORDS}
    return {"program": psutil.Process().memory_info().rss >> 20, **found}


def times(ms: Any) -> str:
    return ", ".join(f"p{share * 100:.0f} {ms.quantile(share):.0f}" for share in (0.5, 0.99))


def learns(task_config: Any) -> None:
    """Count the rows, with the count as the state of the script."""
    import pathlib

    import tensorflow as tf

    learnt = tf.Variable(0, dtype=tf.int64)
    task_config.checkpoint(tf.train.Checkpoint(learnt=learnt), every_rows=300)
    for rows in task_config.tf_context.batches(1):
        learnt.assign_add(1)
        task_config.output_writer.write_batch({"id": rows["id"], "p": learnt[None], "t": rows["t"]})
        pathlib.Path(task_config.user_params["works"]).touch()


class Flow:
    """A stream of ids in Kafka, and a job that sends them through a predictor, ML_PREDICT and two
    scripts to topics of their own.

    One script counts its rows; the other one trains a Keras model with the rows of one partition.
    """

    def __init__(
        self, kafka: Broker, cluster: FlinkCluster, folder: pathlib.Path, name: str, per_second: int
    ) -> None:
        self.kafka, self.cluster, self.draw = kafka, cluster, random.Random(7)
        self.here = useLocalEnv(1, config={"jars": ["kafka"]})
        tables = ("ids", "once", "in_sql", "learnt", "weights")
        self.topics = {each: f"{name}_{each}" for each in tables}
        self.works = {each: folder / f"{each}.works" for each in ("learnt", "weights")}
        self.folder, self.models = folder, folder / "models"
        self.models.mkdir()
        ends = {
            "scan.bounded.mode": "latest-offset",
            "properties.isolation.level": "read_committed",
        }
        # a producer goes to another partition behind each batch
        small = {"properties.batch.size": "1000"}
        kafka.table(self.here.stenv, "fed", "id BIGINT", topic=self.topics["ids"], **small)
        for table, topic in self.topics.items():
            columns = f"id BIGINT, {PLACE}" if table == "ids" else COLUMNS
            kafka.table(self.here.stenv, f"{table}_read", f"{columns}, {SENT}", topic=topic, **ends)
        # which Flink holds in memory, all of them
        tens = counting(self.here.stenv, 3 * 10**6, per_second // 10)
        self.here.stenv.create_temporary_view("tens", tens.getOutputTable())
        # An array that names no column of `tens` makes a join that keeps all of its rows.
        ten = ", ".join(f"id * 10 + {n}" for n in range(10))
        ids = f"SELECT n FROM tens CROSS JOIN UNNEST(ARRAY[{ten}]) AS ones (n)"
        self.feed = self.here.stenv.execute_sql(f"INSERT INTO fed {ids}").get_job_client()

        config = {
            **checkpoints(folder),
            "execution.checkpointing.interval": "1 s",
            "jars": ["kafka", "akdl"],
        }
        config["restart-strategy.fixed-delay.attempts"] = "100000"
        there = useRemoteEnv(cluster.host, cluster.rest_port, 2, config=config).stenv
        kafka.table(there, "ids", f"id BIGINT, {PLACE}, {SENT}", topic=self.topics["ids"])
        once = {
            "sink.delivery-guarantee": "exactly-once",
            "properties.transaction.timeout.ms": "600000",
        }
        for table in ("once", "in_sql", *self.works):
            prefix = {"sink.transactional-id-prefix": f"{name}_{table}"}
            kafka.table(there, table, COLUMNS, topic=self.topics[table], **once, **prefix)
        fed = "id, sent AS t, id AS k, ARRAY[CAST(1 AS FLOAT), CAST(0 AS FLOAT), CAST(0 AS FLOAT)] AS x"
        predictor = TFSavedModelPredictStreamOp(
            modelPath=models.scaled(1.0), outputSchemaStr="p FLOAT", selectedCols=["x", "k"], reservedCols=["id", "t"],
            modelStreamFilePath=self.models.as_uri(), modelStreamScanInterval=1.0,
        )  # fmt: skip
        StreamOperator.fromTable(there.sql_query(f"SELECT {fed} FROM ids")).link(predictor)
        ends_of = {"once": predictor}
        for table, script, which in (
            ("learnt", learns, "TRUE"),
            ("weights", KERAS_SCRIPT, "part = 0"),
        ):
            ends_of[table] = TensorFlow2StreamOp(
                mainScriptFile=script, userFiles=[script] if script is KERAS_SCRIPT else [], outputSchemaStr=COLUMNS,
                numWorkers=1, numPSs=0, saveEvery=1.0, userParams={"works": str(self.works[table])},
            )  # fmt: skip
            StreamOperator.fromTable(
                there.sql_query(f"SELECT id, sent AS t FROM ids WHERE {which}")
            ).link(ends_of[table])
        (folder / "negated.py").write_text(NEGATED)
        there.execute_sql(f"""
            CREATE TEMPORARY MODEL negated INPUT (id BIGINT) OUTPUT (p BIGINT)
            WITH ('provider' = 'akdl', 'path' = '{folder}/negated.py:load')""")
        statements = there.create_statement_set()
        statements.add_insert_sql(
            "INSERT INTO in_sql SELECT id, p, sent FROM ML_PREDICT(TABLE ids, MODEL negated, DESCRIPTOR(id))"
        )
        for table, op in ends_of.items():
            there.create_temporary_view(f"to_{table}", op.getOutputTable())
            statements.add_insert_sql(
                f"INSERT INTO {table} SELECT id, CAST(p AS BIGINT), t FROM to_{table}"
            )
        self.job = statements.execute().get_job_client()
        self.wait_for_work("at the start")

    def last_checkpoint(self) -> int:
        """The number of the last checkpoint; 0 while the JobManager is away."""
        with suppress(OSError):
            found = self.cluster.rest(f"/jobs/{self.job.get_job_id()}/checkpoints")["latest"][
                "completed"
            ]
            return int(found["id"]) if found else 0
        return 0

    def checkpoint(self, when: str, more: int = 2) -> None:
        """Wait for more checkpoints."""
        start = self.last_checkpoint()
        wait_until(
            lambda: self.last_checkpoint() >= start + more,
            f"checkpoints complete {when}",
            8 * DEADLINE_S,
        )

    def wait_for_work(self, when: str) -> None:
        """Wait until both scripts have learnt a batch, so that the next kill interrupts them."""
        since = time.time()

        def work() -> bool:
            return all(
                path.exists() and path.stat().st_mtime > since for path in self.works.values()
            )

        wait_until(work, f"both scripts work {when}", 8 * DEADLINE_S)

    def kill(self, kind: str) -> None:
        """Kill one part, start another one where nothing else does, and wait until the job works
        again.
        """
        start = self.last_checkpoint()
        if kind == "broker":
            self.kafka.kill()
            self.kafka.start()
        else:
            found = self.draw.choice(
                [each for each in processes(kind) if kind != "TaskManager" or each.children()]
            )
            below = found.children(recursive=True)
            found.kill()
            if kind in ("TaskManager", "JobManager"):
                self.cluster.start(kind.lower())
        when = f"after the death of a {kind}"
        wait_until(
            lambda: self.last_checkpoint() >= start + 3,
            f"checkpoints complete {when}",
            8 * DEADLINE_S,
        )
        self.wait_for_work(when)
        if kind == "TaskManager":
            wait_until(
                lambda: not any(is_running(each.pid) for each in below),
                "its Python workers and scripts have ended",
                4 * DEADLINE_S,
            )

    def read(self, table: str, columns: str = "id", where: str = "TRUE", since: float = 0) -> Any:
        """Rows of the messages sent since a time."""
        start = f"'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '{since * 1000:.0f}'"
        return self.here.stenv.sql_query(
            f"SELECT {columns} FROM {table}_read /*+ OPTIONS({start}) */ WHERE {where}"
        ).to_pandas()

    def check(self) -> str:
        """End the feed and the job; compare the topics and the weights, and return what was
        found.
        """
        since = time.time() - 120
        self.feed.cancel().result()
        ids = self.read("ids", "id, part, place").sort_values("place")
        assert ids["id"].is_unique, "the stream of ids itself has some twice"
        one = ids[ids["part"] == 0]["id"].to_numpy()
        # the script still waits for the rest of the last batch
        one = one[: len(one) // BATCH * BATCH]
        whole = ids["id"].to_numpy()
        wanted = {"once": whole, "in_sql": whole, "learnt": whole, "weights": one}
        last_of_parts = ids.groupby("part").tail(1)["id"]
        last = {**dict.fromkeys(wanted, last_of_parts), "weights": one[-1:]}

        def all_there() -> bool:
            return all(
                set(each) <= set(self.read(name, since=since)["id"]) for name, each in last.items()
            )

        with suppress(AssertionError):
            wait_until(all_there, "the last ids are in all topics", 8 * DEADLINE_S)
        self.checkpoint("behind the last rows")
        self.job.cancel().result()
        found = {name: self.read(name, "id, p") for name in wanted}
        lost = {name: len(np.setdiff1d(each, found[name]["id"])) for name, each in wanted.items()}
        doubled = {name: int(each["id"].duplicated().sum()) for name, each in found.items()}
        text = f"{len(ids)} messages, {len(one)} of them in batches of a model: lost {lost}, doubled {doubled}"
        assert not any(lost.values()) and not any(doubled.values()), text
        assert (found["in_sql"]["p"] == -found["in_sql"]["id"]).all(), "each row has its own answer"
        assert sorted(found["learnt"]["p"]) == list(range(1, len(ids) + 1)), (
            "each id has changed the state once"
        )
        weights = found["weights"].set_index("id")["p"][one].to_numpy().view(np.float32)
        difference = float(np.abs(weights - self.undisturbed(one)).max())
        text += f", largest difference of weights after any batch {difference}"
        assert difference == 0.0, text
        return text

    def undisturbed(self, ids: np.ndarray) -> np.ndarray:
        """Return the weights after each batch of a process of its own that learns these ids."""
        given, made = self.folder / "ids.npy", self.folder / "weights.npy"
        np.save(given, ids)
        subprocess.run(
            [sys.executable, KERAS_SCRIPT, str(given), str(made)], check=True, capture_output=True
        )
        return np.load(made).view(np.float32)


@pytest.mark.fault(
    "jobs",
    "Kafka behind predictors and scripts that learn has each row once, learnt once, whatever is killed",
)
@pytest.mark.timeout(900 + KILLS * 90)
def test_kafka_has_each_row_once_and_models_learn_it_once_after_kills(
    kafka: Broker, cluster: FlinkCluster, tmp_path: pathlib.Path
) -> None:
    flow = Flow(kafka, cluster, tmp_path, "kills", 90)
    for number in range(KILLS):
        began = time.monotonic()
        flow.kill(KINDS[number % len(KINDS)])
        print(
            f"kill {number + 1}, {KINDS[number % len(KINDS)]}: {time.monotonic() - began:.0f} s until all works",
            flush=True,
        )
    print(f"{KILLS} kills of {', '.join(KINDS)}, {flow.check()}")
    resetEnv()


@pytest.mark.skipif(not SOAK_S, reason="takes an hour: make soak-kafka")
def test_soak_keeps_each_row_once_and_takes_over_new_models(
    kafka: Broker, cluster: FlinkCluster, tmp_path: pathlib.Path
) -> None:
    """5,000 messages a second, a new model each minute, a kill every five minutes; memory and times
    are printed.
    """
    flow, end, minute = Flow(kafka, cluster, tmp_path, "soak", 5000), time.monotonic() + SOAK_S, 0
    while time.monotonic() < end:
        minute += 1
        publish(models.scaled(1.0 + minute), str(flow.models))
        if minute % KILL_MINUTES == (KILL_MINUTES + 1) // 2 % KILL_MINUTES:
            kind = KINDS[minute // KILL_MINUTES % len(KINDS)]
            began = time.monotonic()
            flow.kill(kind)
            print(
                f"minute {minute}: a {kind} was killed, {time.monotonic() - began:.0f} s until checkpoints complete"
            )
        time.sleep(60)
        print(f"minute {minute}: MB {memory()}, checkpoint {flow.last_checkpoint()}", flush=True)
    print(f"{minute} minutes, {flow.check()}")
    found = flow.read("once", "id, p, t, sent", "MOD(id, 100) = 0")
    found["ms"] = (found["sent"] - found["t"]).dt.total_seconds() * 1000
    for number, (_, part) in enumerate(found.groupby(found["t"].dt.floor("min"))):
        print(
            f"minute {number}: ms from topic to topic {times(part['ms'])}, models {sorted(set(part['p']))}"
        )
    print(f"ms from topic to topic: {times(found['ms'])}")
    assert found["p"].max() == minute + 1, "the last model has taken over"
    resetEnv()
