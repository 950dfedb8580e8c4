"""What TF_CONFIG says of the place of a process."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from akdl.process.ranks import share_of_cores, worker_variables

CLUSTER = {"chief": ["a:1"], "worker": ["[fd::1]:2", "a:3", "a:4"], "ps": ["a:5"]}


@pytest.mark.parametrize(
    ("task", "gpus", "rank", "local"),
    [
        (("chief", 0), None, "0", "0"),
        (("worker", 0), None, "1", "0"),
        (("worker", 1), None, "2", "1"),
        (("worker", 2), "", "3", "2"),
        (("worker", 2), "0,1,2,3", "3", "2"),  # of all workers of the host
        (("worker", 2), "5,7", "3", "0"),  # of its own
    ],
)
def test_workers_are_ranked_behind_the_chief(
    task: tuple[str, int], gpus: str | None, rank: str, local: str
) -> None:
    config = json.dumps({"cluster": CLUSTER, "task": {"type": task[0], "index": task[1]}})
    expected = {
        "MASTER_ADDR": "a",
        "MASTER_PORT": "1",
        "RANK": rank,
        "WORLD_SIZE": "4",
        "LOCAL_RANK": local,
    }
    assert worker_variables(config, gpus) == expected


@pytest.mark.parametrize(
    ("cluster", "expected"), [({"chief": ["[fd::1]:2"]}, ("fd::1", "1")), (CLUSTER, None)]
)
def test_worker_variables_of_a_process_alone_and_of_a_parameter_server(
    cluster: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    """A process without a group is a group of one, and a parameter server has no rank."""
    task = {"type": "chief" if expected else "ps", "index": 0}
    found = worker_variables(json.dumps({"cluster": cluster, "task": task}), None)
    assert (
        found == {} if expected is None else (found["MASTER_ADDR"], found["WORLD_SIZE"]) == expected
    )


def test_share_of_cores_counts_all_cores_where_the_system_has_no_affinity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")  # as on macOS
    assert share_of_cores({}) == os.cpu_count()


def test_share_of_cores_divides_the_cores_among_processes_of_a_host() -> None:
    cores = len(os.sched_getaffinity(0))
    config = {
        "cluster": {"chief": ["a:1"], "worker": ["b:2", "a:3"] + ["b:4"] * 99},
        "task": {"type": "worker", "index": 1},
    }
    assert share_of_cores({}) == cores
    assert share_of_cores({"TF_NUM_INTRAOP_THREADS": "1"}) == 1
    assert share_of_cores({"TF_CONFIG": json.dumps(config)}) == max(1, cores // 2)
    config["task"]["index"] = 0  # type: ignore[index]
    assert share_of_cores({"TF_CONFIG": json.dumps(config)}) == max(1, cores // 100)
