"""What a task of a predictor tells of itself."""

from __future__ import annotations

import pathlib

import pytest

from bridge.member import registry
from bridge.member.status import ENDED, FEEDING, STARTING, MemberStatus
from bridge.serving.task_status import TaskStatus


def test_a_task_tells_its_driver(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path))
    seen = []

    def look() -> MemberStatus:
        (status,) = registry.statuses(["predicts_1"])
        seen.append(status.phase)
        return status

    task = TaskStatus("predicts_1", 3, 0)
    look()
    task.loaded()
    look()
    task.add(10, 0.0)
    task.add(5, 0.0)
    task.end()
    status = look()
    assert seen == [STARTING, FEEDING, ENDED]
    assert (status.rows_in, status.rows_out, status.label) == (15, 15, "task 3")
    assert set(status.phase_s) == {STARTING, FEEDING} and status.script_waited_s + status.flink_waited_s <= status.age_s + 0.02
    (path,) = tmp_path.iterdir()
    assert path.name == "akdl-predicts_1-task-3-0.ended" and MemberStatus.from_json(path.read_text()) == status
    registry.forget_groups(["predicts_1"])
    assert registry.statuses(["predicts_1"]) == []
