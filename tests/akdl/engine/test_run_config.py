"""What TF_CONFIG says: this process's task, and whether workers train in step."""

from __future__ import annotations

import json
from typing import Any

import pytest

IN_STEP = {"cluster": {"worker": ["a:1", "b:2", "c:3"]}, "task": {"type": "worker", "index": 1}}


@pytest.mark.tf
@pytest.mark.parametrize(
    ("cluster", "workers"),
    [
        ({}, 0),
        ({"chief": ["a:1"]}, 0),
        ({"worker": ["a:1", "b:2"]}, 2),
        ({"chief": ["a:1"], "worker": ["b:2", "c:3"]}, 3),
        ({"chief": ["a:1"], "worker": ["b:2"], "ps": ["c:3"]}, 0),
    ],
)
def test_workers_in_step(cluster: dict[str, Any], workers: int) -> None:
    from akdl.engine.run_config import in_step_workers

    assert in_step_workers({"TF_CONFIG": json.dumps({"cluster": cluster})}) == workers


@pytest.mark.tf
def test_the_task() -> None:
    from akdl.engine.run_config import read_task

    assert read_task({}) == (None, 0)
    assert read_task({"TF_CONFIG": json.dumps(IN_STEP)}) == ("worker", 1)


@pytest.mark.tf
def test_workers_in_step_do_not_save_by_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    from akdl.engine.run_config import generate_run_config

    monkeypatch.setenv("TF_CONFIG", json.dumps(IN_STEP))
    with pytest.raises(ValueError, match="got save_checkpoints_secs 60: set save_checkpoints_steps instead"):
        generate_run_config(save_checkpoints_steps=None, save_checkpoints_secs=60)
