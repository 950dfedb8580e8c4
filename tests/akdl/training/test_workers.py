"""A process's place in TF_CONFIG, where it needs no other processes to be found out."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.tf


def group(cluster: dict[str, list[str]], role: str, index: int = 0, **more: Any) -> Any:
    from akdl.training.workers import Group

    return Group(
        {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})},
        **more,
    )


def test_group_of_one_process_sums_its_own_values() -> None:
    from akdl.training.workers import Group

    for one in (Group({}), group({"chief": ["localhost:1"], "ps": []}, "chief")):
        assert (one.rank, one.ranks, one.replicas, one.local_replicas, one.is_chief) == (
            0,
            1,
            1,
            1,
            True,
        )
        assert one.sum([1, 2]).tolist() == [1.0, 2.0]
        assert one.local_values(["a"]) == "a"
        assert one.sum(np.zeros(0)).size == 0


@pytest.mark.parametrize(
    ("cluster", "role", "more", "message"),
    [
        (
            {"chief": ["a:1"], "ps": ["a:2"]},
            "chief",
            {},
            "without parameter servers and evaluators, got ps: set numPSs to 0",
        ),
        (
            {"chief": ["a:1"], "worker": ["a:2"]},
            "evaluator",
            {},
            "expected a task of its cluster, got evaluator 0",
        ),
        (
            {"chief": ["a:1"], "worker": ["a:2"]},
            "chief",
            {"devices": ["CPU:0"]},
            "devices can be set for a process alone only",
        ),
    ],
)
def test_group_refuses_clusters_and_roles_that_it_cannot_train(
    cluster: dict[str, list[str]], role: str, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        group(cluster, role, **more)
