"""When an elastic training gets another job, with the answers of Flink's REST in hand."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from akdl.storage.training_folders import ask_to_stop
from bridge.exceptions import ConfigurationError
from operators.base import elastic
from operators.base.elastic import Elastic, SlotWatch, run
from operators.base.operator import Operator
from operators.flink.rest import Rest, RestError
from operators.progress.state import Shown


def plan_of(group: str) -> dict[str, Any]:
    return {"nodes": [{"description": f"Op, main.py, addresses, group {group}<br/>"}]}


class Cluster(Rest):
    """Two TaskManagers of one slot each, in which the job of two workers runs."""

    def __init__(self) -> None:
        super().__init__("flink.example:8081")
        self.total, self.free, self.managers, self.silent = 2, 0, ["a", "b"], ""
        self.tasks, self.cancelled = {"RUNNING": 2}, []

    def get(self, path: str) -> Any:
        if path.endswith("/logs"):
            if self.silent and path == f"/taskmanagers/{self.silent}/logs":
                raise RestError("no answer")
            return {"logs": []}
        return {
            "/overview": {"slots-total": self.total, "slots-available": self.free},
            "/taskmanagers": {"taskmanagers": [{"id": each} for each in self.managers]},
            "/jobs/overview": {
                "jobs": [{"jid": "other", "state": "RUNNING"}, {"jid": "own", "state": "RUNNING"}]
            },
            "/jobs/other": {
                "jid": "other",
                "state": "RUNNING",
                "vertices": [{"tasks": {"SCHEDULED": 1}}],
                "plan": plan_of("Op_2"),
            },
            "/jobs/own": {
                "jid": "own",
                "state": "RUNNING",
                "vertices": [{"tasks": self.tasks}],
                "plan": plan_of("Op_1"),
            },
        }[path]

    def cancel(self, job: str) -> None:
        self.cancelled.append(job)


def watch_of(
    cluster: Cluster, folder: Path, least: int = 1, most: int = 3, wait_s: float = 10.0
) -> SlotWatch:
    """Watch of a job that begins on two free slots, and takes them."""
    group = Elastic("train.py", least, most, 0, wait_s, str(folder), lambda workers: None)
    free, cluster.free = cluster.free, 2
    watch = SlotWatch(cluster, "Op_1", group, 2, 1)
    cluster.free = free
    return watch


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elastic, "LOOK_S", 0.01)
    monkeypatch.setattr(elastic, "_FREED_S", 0.1)


@pytest.mark.parametrize(("slots", "workers"), [(None, 4), (9, 4), (4, 3), (3, 2), (1, 2), (0, 2)])
def test_workers_take_the_slots_that_there_are(slots: int | None, workers: int) -> None:
    assert Elastic("", 2, 4, 1, 1.0, "", lambda workers: None).workers_in(slots) == workers


def test_more_slots_lead_to_another_job_after_a_checkpoint(tmp_path: Path) -> None:
    cluster = Cluster()
    watch = watch_of(cluster, tmp_path)
    (tmp_path / "checkpoint-1.npz").touch()
    cluster.total, cluster.free = 3, 1
    for now in (0, 9, 10, 11):
        watch.look(now)
    (tmp_path / "checkpoint-2.npz").touch()
    watch.look(12)
    assert not cluster.cancelled, "the checkpoint may be on its way"
    watch.look(13)
    assert cluster.cancelled == ["own"]
    cluster.free = 3
    assert watch.leads_to_another_job()


def test_a_checkpoint_of_tensorflow_is_whole_once_its_name_is_written(tmp_path: Path) -> None:
    cluster = Cluster()
    watch, cluster.free = watch_of(cluster, tmp_path), 1
    (tmp_path / "checkpoint").write_text("model.ckpt-1")
    for now in range(0, 50, 10):
        watch.look(now)
        (tmp_path / f"events.out.tfevents.{now}").touch()
        (tmp_path / f"model.ckpt-2.part-{now}").touch()
    assert not cluster.cancelled
    (tmp_path / "checkpoint").write_text("model.ckpt-22")
    watch.look(60)
    watch.look(61)
    assert cluster.cancelled == ["own"]


def test_slots_that_disappear_again_cancel_no_job(tmp_path: Path) -> None:
    cluster = Cluster()
    watch = watch_of(cluster, tmp_path)
    for now, free in ((0, 1), (9, 0), (10, 1), (19, 1), (20, 0)):
        cluster.free = free
        watch.look(now)
        (tmp_path / str(now)).touch()
    assert not cluster.cancelled


def test_a_training_that_is_to_stop_gets_no_other_job(tmp_path: Path) -> None:
    cluster = Cluster()
    watch, cluster.free = watch_of(cluster, tmp_path), 1
    ask_to_stop(str(tmp_path))
    for now in range(0, 50, 10):
        watch.look(now)
        (tmp_path / str(now)).touch()
    assert not cluster.cancelled


def test_enough_workers_need_no_more_slots(tmp_path: Path) -> None:
    cluster = Cluster()
    watch, cluster.free = watch_of(cluster, tmp_path, most=2), 5
    for now in range(0, 50, 10):
        watch.look(now)
        (tmp_path / str(now)).touch()
    assert not cluster.cancelled


def test_a_restart_that_waits_for_a_lost_slot_becomes_another_job(tmp_path: Path) -> None:
    cluster = Cluster()
    watch = watch_of(cluster, tmp_path)
    cluster.total, cluster.tasks = 1, {"SCHEDULED": 2}
    watch.look(0)
    watch.look(9)
    assert not cluster.cancelled
    watch.look(10)
    assert cluster.cancelled == ["own"]
    cluster.free = 1
    assert watch.leads_to_another_job()


def test_a_restart_without_slots_for_the_smallest_group_waits_for_them(tmp_path: Path) -> None:
    cluster = Cluster()
    cluster.total = 3  # one of them belongs to another job
    watch = watch_of(cluster, tmp_path)
    cluster.total, cluster.tasks = 1, {"SCHEDULED": 2}
    for now in (0, 10, 20):
        watch.look(now)
    assert not cluster.cancelled, "the error of a cancelled job has no reason"
    cluster.total = 2
    for now in (30, 40):
        watch.look(now)
    assert cluster.cancelled == ["own"]


def test_a_start_that_waits_for_its_slots_is_left_alone(tmp_path: Path) -> None:
    cluster = Cluster()
    watch, cluster.tasks = watch_of(cluster, tmp_path), {"SCHEDULED": 2}
    watch.look(0)
    watch.look(100)
    assert not cluster.cancelled


@pytest.mark.parametrize(("least", "free", "goes_on"), [(1, 1, True), (2, 1, False), (1, 0, False)])
def test_failure_with_a_lost_host_leads_to_a_smaller_job_if_slots_suffice(
    tmp_path: Path, least: int, free: int, goes_on: bool
) -> None:
    cluster = Cluster()
    watch = watch_of(cluster, tmp_path, least=least, wait_s=0.05)
    cluster.managers, cluster.total, cluster.free = ["b"], 1, free
    assert watch.leads_to_another_job() is goes_on


def test_failure_of_a_script_leads_to_no_other_job(tmp_path: Path) -> None:
    assert not watch_of(Cluster(), tmp_path, wait_s=1000).leads_to_another_job()


def test_silent_host_counts_as_lost_once_flink_has_forgotten_it(tmp_path: Path) -> None:
    class Forgets(Cluster):
        def get(self, path: str) -> Any:
            if path == "/taskmanagers/a/logs":
                self.managers = ["b"]  # before the next question
            return super().get(path)

    cluster = Forgets()
    watch, cluster.silent, cluster.free = watch_of(cluster, tmp_path, wait_s=0.05), "a", 1
    assert watch.leads_to_another_job()


@pytest.mark.parametrize("had_stopped", [False, True])
@pytest.mark.parametrize("is_stopped", [False, True])
def test_stop_that_a_lost_job_has_noted_is_requested_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, had_stopped: bool, is_stopped: bool
) -> None:
    class Trains(Operator[Any]):
        _table_env = SimpleNamespace(get_config=lambda: None)

    op = Trains()
    op._shown["Op_1"] = Shown("train.py")
    op._elastic["Op_1"] = Elastic("train.py", 1, 2, 0, 1.0, str(tmp_path), lambda workers: None)
    for name, answer in {
        "rest_of": Cluster(),
        "needs_of": [],
        "check_slots": None,
        "free_slots": 2,
        "parallelism_of": 1,
        "running": nullcontext(),
    }.items():
        monkeypatch.setattr(elastic, name, lambda *_, answer=answer: answer)
    monkeypatch.setattr(SlotWatch, "leads_to_another_job", lambda watch: True)
    stopped = tmp_path / "STOPPED"
    if had_stopped:
        stopped.touch()
        os.utime(stopped, (1, 1))
    errors = [RuntimeError("a host is lost")]

    def job() -> bool:
        if not errors:
            return (tmp_path / "STOP").exists()
        if is_stopped:
            stopped.touch()
        raise errors.pop()

    assert run(op, job) is is_stopped


def test_two_elastic_trainings_in_one_job_are_refused(tmp_path: Path) -> None:
    op: Operator[Any] = Operator()
    for group in ("a", "b"):
        op._elastic[group] = Elastic("train.py", 1, 2, 0, 1.0, str(tmp_path), lambda workers: None)
    with pytest.raises(ConfigurationError, match="one training with a pair as numWorkers"):
        run(op, lambda: None)
