"""TF_CONFIG as a function of roles and addresses."""

from __future__ import annotations

import json

import pytest

from bridge.group.addresses import role, tf_config


@pytest.mark.parametrize(
    ("index", "expected"),
    [(0, ("chief", 0)), (1, ("worker", 0)), (2, ("worker", 1)), (3, ("ps", 0)), (4, ("ps", 1))],
)
def test_roles_are_chief_workers_and_parameter_servers_in_order(
    index: int, expected: tuple[str, int]
) -> None:
    assert role(index, 3) == expected


def test_cluster_lists_every_member_under_its_role() -> None:
    assert json.loads(tf_config(2, 2, ["a:1", "b:2", "c:3"])) == {
        "cluster": {"chief": ["a:1"], "worker": ["b:2"], "ps": ["c:3"]},
        "task": {"type": "ps", "index": 0},
    }


def test_a_single_worker_is_a_chief_alone() -> None:
    assert json.loads(tf_config(0, 1, ["a:1"])) == {
        "cluster": {"chief": ["a:1"]},
        "task": {"type": "chief", "index": 0},
    }
