"""Roles and addresses of a group as TF_CONFIG: the chief is worker 0, and parameter servers follow
the workers. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Sequence


def role(index: int, num_workers: int) -> tuple[str, int]:
    """Return task type and task index of a member in TF_CONFIG.

    TensorFlow counts workers apart from the chief, so worker 0 of TF_CONFIG is member 1.
    """
    if index == 0:
        return "chief", 0
    if index < num_workers:
        return "worker", index - 1
    return "ps", index - num_workers


def label(index: int, num_workers: int) -> str:
    """Name of a member in errors and logs, with the type and the number of TF_CONFIG."""
    kind, number = role(index, num_workers)
    return f"{kind} {number}"


def tf_config(index: int, num_workers: int, addresses: Sequence[str]) -> str:
    cluster: dict[str, list[str]] = {}
    for member, address in enumerate(addresses):
        # The index of a process in TF_CONFIG is its place in this list, so the order of members
        # counts.
        cluster.setdefault(role(member, num_workers)[0], []).append(address)
    task_type, task_index = role(index, num_workers)
    return json.dumps({"cluster": cluster, "task": {"type": task_type, "index": task_index}})
