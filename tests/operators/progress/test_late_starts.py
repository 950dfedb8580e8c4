"""When a program says that Python workers of a cluster block at their start, with the answers of Flink's REST in hand."""

from __future__ import annotations

from typing import Any

import pytest

from operators.flink.rest import Rest, RestError
from operators.progress import late_starts
from operators.progress.late_starts import late_starts_told
from operators.progress.state import Shown
from tests.support.leftovers import wait_until


class _Cluster(Rest):
    """A job whose tasks have been started 400 s ago."""

    def __init__(self) -> None:
        super().__init__("nowhere:1")
        self.looks, self.state, self.group, self.fails = 0, "INITIALIZING", "Op_1", False

    def get(self, path: str) -> Any:
        self.looks += path == "/jobs/overview"
        if self.fails:
            raise RestError("no answer")
        nodes = [{"id": "v1", "description": "Source"}, {"id": "v2", "description": f"Op, main.py, group {self.group}<br/>"}]
        vertices = [
            {"id": "v1", "name": "Source", "start-time": 1_000, "tasks": {"INITIALIZING": 1}},
            {"id": "v2", "name": "Op, main.py", "start-time": 600_000, "tasks": {self.state: 2}},
        ]
        subtasks = [{"endpoint": "host-1:4711", "status": self.state}, {"endpoint": "host-2:4711", "status": "RUNNING"}]
        return {
            "/jobs/overview": {"jobs": [{"jid": "j1", "state": "RUNNING"}]},
            "/jobs/j1": {"now": 1_000_000, "plan": {"nodes": nodes}, "vertices": vertices},
            "/jobs/j1/vertices/v2": {"subtasks": subtasks},
        }[path]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_starts, "LOOK_S", 0.01)


def _operators(limit_s: float) -> dict[str, Shown]:
    return {"Op_1": Shown("main.py", start_timeout_s=limit_s)}


def test_a_late_task_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, said = _Cluster(), []
    monkeypatch.setattr(late_starts, "warn", said.append)
    with late_starts_told(cluster, _operators(0.01)):
        wait_until(lambda: bool(said), "the program says so")
    (text,) = said
    assert text.startswith("Op, main.py: Flink's Python workers still start after 0.01 s (startTimeout) on host-1:4711, and")
    assert cluster.looks == 1


def test_a_task_is_late_after_the_timeout_of_its_operator() -> None:
    assert late_starts._late(_Cluster(), _operators(399.0), 399.0)
    assert not late_starts._late(_Cluster(), _operators(401.0), 401.0)


@pytest.mark.parametrize("changes", [{"state": "RUNNING"}, {"state": "SCHEDULED"}, {"group": "Op_2"}, {"fails": True}], ids=str)
def test_other_tasks_are_not_told(changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, said = _Cluster(), []
    vars(cluster).update(changes)
    monkeypatch.setattr(late_starts, "warn", said.append)
    with late_starts_told(cluster, _operators(0.01)):
        wait_until(lambda: cluster.looks > 2, "it looks again")
    assert said == []
