"""Statuses of members on a cluster, read through Flink's REST."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.member.status import ENDED
from operators.flink.rest import Rest
from operators.progress.status_sources import RestSource
from tests.support.statuses import status_of


class _Cluster(Rest):
    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__("nowhere:1")
        self.files = files
        self.asked: list[str] = []
        self.written: dict[str, int] = {}
        self.is_lost = False
        # TaskManagers, and of which of them a file is, if it is not the first.
        self.managers, self.manager_of = ["tm-1"], dict[str, str]()

    def get(self, path: str) -> Any:
        if path == "/taskmanagers":
            return {"taskmanagers": [{"id": each} for each in self.managers]}
        manager = path.split("/")[2]
        assert path == f"/taskmanagers/{manager}/logs"
        if self.is_lost:
            raise OSError("no answer")
        return {
            "logs": [
                {"name": name, "mtime": self.written.get(name, 0)}
                for name in ("flink.log", *self.files)
                if self.manager_of.get(name, "tm-1") == manager
            ]
        }

    def content(self, path: str) -> bytes:
        self.asked.append(path)
        content = self.files.get(path.rsplit("/", 1)[1], b"")
        if not content:
            raise OSError("gone")
        return content


def test_files_of_the_groups_are_read() -> None:
    here, ended = status_of("a_1", 0, "chief 0"), status_of("a_1", 1, "worker 1", phase=ENDED)
    cluster = _Cluster(
        {"akdl-a_1-chief-0-0.status": here.SerializeToString(), "akdl-a_1-worker-1-0.status": ended.SerializeToString(),
         "akdl-a_2-chief-0-0.status": b"x", "akdl-a_1-chief-0-0.log": b"x", "akdl-a_1-worker-2-0.status": b""}
    )  # fmt: skip
    source = RestSource(cluster, {"a_1"}, 3)
    assert source.read() == [here, ended]
    cluster.asked.clear()
    assert source.read() == [here, ended]
    assert cluster.asked == [
        "/taskmanagers/tm-1/logs/akdl-a_1-chief-0-0.status",
        "/taskmanagers/tm-1/logs/akdl-a_1-worker-2-0.status",
    ]
    late = status_of("a_1", 2, "worker 2")
    cluster.files["akdl-a_1-worker-2-0.status"] = late.SerializeToString()
    cluster.files["akdl-a_1-worker-2-1.status"] = late.SerializeToString()
    assert len(source.read()) == 3 and len(source.read(is_last=True)) == 4


def test_final_status_file_replaces_the_earlier_one() -> None:
    here, ended = (
        status_of("a", 0, "chief 0", rows_in=1),
        status_of("a", 0, "chief 0", phase=ENDED, rows_in=2),
    )
    cluster = _Cluster({"akdl-a-chief-0-0.status": here.SerializeToString()})
    source = RestSource(cluster, {"a"}, 1)
    assert source.read() == [here]
    del cluster.files["akdl-a-chief-0-0.status"]
    cluster.files["akdl-a-chief-0-0.ended"] = ended.SerializeToString()
    assert source.read(is_last=True) == [ended]
    assert (
        source.read(is_last=True) == [ended]
        and cluster.asked.count("/taskmanagers/tm-1/logs/akdl-a-chief-0-0.ended") == 1
    )


def test_statuses_from_before_a_new_job_are_ignored() -> None:
    """The next job of an elastic training has the same group, and perhaps fewer workers."""
    ended = status_of("a", 0, "chief 0", phase=ENDED, rows_in=1)
    killed = status_of("a", 1, "worker 0", rows_in=1)
    cluster = _Cluster(
        {
            "akdl-a-chief-0-0.ended": ended.SerializeToString(),
            "akdl-a-worker-0-0.status": killed.SerializeToString(),
        }
    )
    source = RestSource(cluster, {"a"}, 1, new=True)
    assert source.read() == []
    here = status_of("a", 0, "chief 0", rows_in=2)
    cluster.files["akdl-a-chief-0-0.status"] = here.SerializeToString()
    cluster.written["akdl-a-chief-0-0.status"] = 5
    assert source.read(is_last=True) == [here]
    last = status_of("a", 0, "chief 0", phase=ENDED, rows_in=3)
    del cluster.files["akdl-a-chief-0-0.status"]
    cluster.files["akdl-a-chief-0-0.ended"] = last.SerializeToString()
    cluster.written["akdl-a-chief-0-0.ended"] = 6
    assert source.read(is_last=True) == [last]
    assert RestSource(cluster, {"a"}, 1).read() == [last, killed], (
        "the job may have ended before its progress is shown"
    )


def test_a_member_that_writes_no_longer_is_lost_but_a_predictor_may_have_no_rows() -> None:
    here, lost, task = (
        status_of("a", index, label)
        for index, label in enumerate(["chief 0", "worker 0", "task 2"])
    )
    cluster = _Cluster(
        {"akdl-a-chief-0-0.status": here.SerializeToString(), "akdl-a-worker-0-0.status": lost.SerializeToString(),
         "akdl-a-task-2-0.status": task.SerializeToString()}
    )  # fmt: skip
    source = RestSource(cluster, {"a"}, 9)
    assert source.read() == [here, lost, task]
    cluster.written["akdl-a-chief-0-0.status"] = 60_000
    assert source.read(is_last=True) == [here, task]


def test_members_of_a_host_whose_clock_is_behind_are_not_lost() -> None:
    here, behind = status_of("a", 0, "chief 0"), status_of("a", 1, "worker 0")
    cluster = _Cluster(
        {
            "akdl-a-chief-0-0.status": here.SerializeToString(),
            "akdl-a-worker-0-0.status": behind.SerializeToString(),
        }
    )
    cluster.managers = ["tm-1", "tm-2"]
    cluster.manager_of["akdl-a-worker-0-0.status"] = "tm-2"
    cluster.written["akdl-a-chief-0-0.status"] = 60_000
    assert RestSource(cluster, {"a"}, 2).read() == [here, behind]


def test_members_of_a_task_manager_that_does_not_answer_stay_until_flink_forgets_it() -> None:
    here = status_of("a", 0, "chief 0")
    cluster = _Cluster({"akdl-a-chief-0-0.status": here.SerializeToString()})
    source = RestSource(cluster, {"a"}, 1)
    assert source.read() == [here]
    cluster.is_lost = True
    assert source.read(is_last=True) == [here]
    assert RestSource(cluster, {"a"}, 1).read() == [], "and commands show the others"


class _Jobs(Rest):
    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__("nowhere:1")
        self._answers = answers

    def get(self, path: str) -> Any:
        return self._answers[path]


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ({"SCHEDULED": 1, "RUNNING": 2}, "waiting for slots"),
        ({"INITIALIZING": 1, "RUNNING": 2}, "Flink starts Python workers on the cluster"),
    ],
)
def test_start_step_of_a_job_follows_the_states_of_its_tasks(
    tasks: dict[str, int], words: str
) -> None:
    running = {"jid": "1", "name": "a", "state": "RUNNING"}
    plan = {"nodes": [{"description": "a.py, group g"}]}
    jobs = _Jobs(
        {
            "/jobs/overview": {"jobs": [running]},
            "/jobs/1": {"plan": plan, "vertices": [{"tasks": tasks}]},
        }
    )
    assert RestSource(jobs, {"g"}).start_step() == words
    assert RestSource(jobs, {"other"}).start_step() == "the job and its files are sent", (
        "an environment may have gigabytes"
    )


class _Starting(Rest):
    """A job whose tasks have been started 400 s ago."""

    def __init__(self) -> None:
        super().__init__("nowhere:1")
        self.looks, self.state, self.group = 0, "INITIALIZING", "Op_1"

    def get(self, path: str) -> Any:
        self.looks += path == "/jobs/overview"
        nodes = [
            {"id": "v1", "description": "Source"},
            {"id": "v2", "description": f"Op, main.py, group {self.group}<br/>"},
        ]
        vertices = [
            {"id": "v1", "name": "Source", "start-time": 1_000, "tasks": {"INITIALIZING": 1}},
            {"id": "v2", "name": "Op, main.py", "start-time": 600_000, "tasks": {self.state: 2}},
        ]
        subtasks = [
            {"endpoint": "host-1:4711", "status": self.state},
            {"endpoint": "host-2:4711", "status": "RUNNING"},
        ]
        return {
            "/jobs/overview": {"jobs": [{"jid": "j1", "state": "RUNNING"}]},
            "/jobs/j1": {
                "jid": "j1",
                "now": 1_000_000,
                "plan": {"nodes": nodes},
                "vertices": vertices,
            },
            "/jobs/j1/vertices/v2": {"subtasks": subtasks},
        }[path]


@pytest.mark.parametrize(("limit_s", "is_late"), [(399.0, True), (401.0, False)])
def test_a_task_is_late_after_the_timeout_of_its_operator(limit_s: float, is_late: bool) -> None:
    text = RestSource(_Starting(), {"Op_1"}).late_start(limit_s)
    words = f"Op, main.py: Flink's Python workers still start after {limit_s:g} s (startTimeout) on host-1:4711, and the job"
    assert text.startswith(words) if is_late else not text


@pytest.mark.parametrize(
    "changes", [{"state": "RUNNING"}, {"state": "SCHEDULED"}, {"group": "Op_2"}], ids=str
)
def test_tasks_of_other_states_or_groups_are_not_late(changes: dict[str, Any]) -> None:
    cluster = _Starting()
    vars(cluster).update(changes)
    assert RestSource(cluster, {"Op_1"}).late_start(0.01) == "" and cluster.looks == 1
