"""Groups of several roles on the embedded mini cluster: who is told what, and who gets
which rows.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from operators import TensorFlow2BatchOp, getMLEnv, useLocalEnv
from tests.e2e.jobs import SCRIPTS, sequence

pytestmark = pytest.mark.flink

NAMES = ["ids", "weights", "cluster", "workers"]
SCHEMA = "role STRING, ids STRING, weights STRING, cluster STRING, workers STRING"


@pytest.fixture(scope="module", autouse=True)
def _local_env() -> None:
    useLocalEnv(2)


def roles(mode: str, rows: int, **params: Any) -> dict[Any, Any]:
    """Run roles.py and return what each worker saw, by its role."""
    return seen(linked(mode, rows, **params))


def linked(mode: Any, rows: int, **params: Any) -> TensorFlow2BatchOp:
    files = [str(SCRIPTS / name) for name in ("roles.py", "tfrecords.py")]
    op = TensorFlow2BatchOp(
        userFiles=files, mainScriptFile=files[0], outputSchemaStr=SCHEMA, **params
    )
    return sequence(getattr(getMLEnv(), mode), rows).link(op)


def seen(op: TensorFlow2BatchOp) -> dict[Any, Any]:
    found = op.collectToDataframe()
    return {
        row.role: {name: json.loads(getattr(row, name)) for name in NAMES}
        for row in found.itertuples()
    }


def ids(found: Any) -> list[Any]:
    return sorted(number for worker in found.values() for number in worker["ids"])


def check_cluster(found: Any, workers: int, servers: int) -> None:
    (cluster,) = {json.dumps(worker["cluster"]) for worker in found.values()}
    cluster = json.loads(cluster)
    assert [len(cluster.get(role, [])) for role in ("chief", "worker", "ps")] == [
        1,
        workers - 1,
        servers,
    ]
    addresses = [address for role in cluster.values() for address in role]
    assert len(set(addresses)) == len(addresses) == workers + servers
    assert {worker["workers"] for worker in found.values()} == {workers}


@pytest.mark.parametrize("mode", ["btenv", pytest.param("stenv", marks=pytest.mark.long)])
def test_default_group_has_a_worker_and_a_parameter_server(mode: str) -> None:
    """With a parallelism of 2 and nothing set, there is one of each; the server gets no rows and
    ends with the worker.
    """
    found = roles(mode, 1003)
    assert ids(found) == list(range(1003))
    check_cluster(found, 1, 1)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["btenv", "stenv"])
def test_group_may_have_more_processes_than_the_parallelism(mode: str) -> None:
    found = roles(mode, 1003, numWorkers=3, numPSs=2)
    assert ids(found) == list(range(1003))
    assert sorted(found) == ["chief 0", "worker 0", "worker 1"]
    check_cluster(found, 3, 2)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["btenv", "stenv"])
def test_padding_gives_every_worker_the_same_number_of_rows(mode: str) -> None:
    found = roles(mode, 100, numWorkers=3, numPSs=0, equalSteps="pad")
    (size,) = {len(worker["ids"]) for worker in found.values()}
    real = [
        row
        for worker in found.values()
        for row, weight in zip(worker["ids"], worker["weights"])
        if weight
    ]
    assert sorted(real) == list(range(100))
    assert size in (34, 35), "two subtasks deal, so the largest share is at most one above the mean"
    assert {weight for worker in found.values() for weight in worker["weights"]} == {0.0, 1.0}


@pytest.mark.long
def test_dropping_gives_every_worker_the_same_number_of_different_rows() -> None:
    found = roles("btenv", 1000, numWorkers=3, numPSs=0, equalSteps="drop")
    (size,) = {len(worker["ids"]) for worker in found.values()}
    assert size in (332, 333) and len(set(ids(found))) == 3 * size


@pytest.mark.long
def test_two_groups_train_at_once() -> None:
    """Both jobs are sent before either is waited for."""
    running = [
        linked("btenv", 200 + job, numWorkers=2, numPSs=1).getOutputTable().execute()
        for job in range(2)
    ]
    clusters = set()
    for job, result in enumerate(running):
        with result.collect() as rows:
            found = {row[0]: dict(zip(NAMES, map(json.loads, list(row)[1:]))) for row in rows}
        assert ids(found) == list(range(200 + job))
        check_cluster(found, 2, 1)
        clusters |= {json.dumps(worker["cluster"]) for worker in found.values()}
    assert len(clusters) == 2
