"""Statuses, progress and reports of members and of predictors' tasks."""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from akdl.wire import (
    AWAITING,
    CALLING,
    READING,
    STILL,
    WORKING,
    Cluster,
    Failure,
    Hello,
    Outcome,
    Output,
    Progress,
    Report,
    Rows,
    Success,
)
from akdl.wire.service import PROTOCOL
from akdl.wire.status_pb2 import MemberStatus
from bridge.group.addresses import label
from bridge.member import registry
from bridge.member.observer import (
    BUSY,
    MOST_IDLE_S,
    REPORT_EVERY_S,
    REPORT_PREFIX,
    Observer,
    ProgressWatch,
    TaskObserver,
)
from bridge.member.session import Session
from bridge.member.status import (
    DATA,
    ENDED,
    EXPORT,
    EXPORTING,
    FEEDING,
    JOINING,
    PEERS,
    READ,
    START,
    STARTING,
    TRAINING,
    WORK,
)
from bridge.schema import Schema
from bridge.settings import GroupSettings

SCHEMA = Schema.parse("x INT")
SETTINGS = GroupSettings(
    operator="Op", kind="train", num_workers=1, num_ps=1, input_schema=SCHEMA, output_schema=SCHEMA, main_script="m.py",
    user_files=(),
)  # fmt: skip


def _observer(
    session: Session, index: int = 0, log: list[str] | None = None, servers: int = 1, **changes: str
) -> Observer:
    lines = [] if log is None else log
    process: Any = SimpleNamespace(
        settings=dataclasses.replace(SETTINGS, num_ps=servers, **changes), group="group", index=index,
        label=label(index, SETTINGS.num_workers), changed=threading.Condition(), resources=(1.5, 1 << 20), log=lines.append,
        private_folder="",
    )  # fmt: skip
    return Observer(session, process)


def test_phases_follow_the_session() -> None:
    session = Session(2, 1 << 20)
    observer, seen = _observer(session), []

    def look() -> None:
        observer.look()
        seen.append(observer.status.phase)

    look()
    session.connect(Hello(attempt=2, protocol=PROTOCOL))
    look()
    session.join(Cluster())
    look()
    session.rows_arrived = 7
    session.end_input()
    session.report(
        Progress(
            rows_read=5, report=Report(number=1, step=3, metrics={"loss": 0.5, "bad": float("nan")})
        )
    )
    look()
    session.report(Progress(rows_read=7, exporting=True))
    look()
    session.finish(Outcome(success=Success(rows_read=7)))
    observer.look(is_over=True)
    status = observer.status
    assert seen == [STARTING, JOINING, FEEDING, TRAINING, EXPORTING] and status.phase == ENDED
    assert (status.rows_in, status.rows_read, status.attempt, status.cpu_s) == (7, 7, 2, 1.5)
    assert (status.step, status.metrics["loss"], status.is_worker) == (3, 0.5, True) and math.isnan(
        status.metrics["bad"]
    )
    assert not _observer(session, 1).status.is_worker


@pytest.mark.parametrize(
    ("progress", "servers", "use"),
    [
        (Progress(), 0, START),
        (Progress(activity=WORKING), 0, WORK),
        (Progress(activity=READING), 0, READ),
        (Progress(activity=AWAITING), 0, DATA),
        (Progress(activity=CALLING), 1, WORK),
        (Progress(activity=STILL), 0, WORK),
        (Progress(activity=STILL), 1, PEERS),
        (Progress(activity=WORKING, exporting=True), 1, EXPORT),
    ],
)
def test_time_of_a_script_is_classified_by_its_activity(
    progress: Progress, servers: int, use: str
) -> None:
    session = Session(0, 1 << 20)
    observer = _observer(session, servers=servers)
    session.connect(Hello(protocol=PROTOCOL))
    session.join(Cluster())
    observer.look()
    session.report(progress)
    before = dict(observer.status.time_s)
    while observer.status.time_s.get(use, 0.0) == before.get(use, 0.0):
        observer.look()
    assert set(observer.status.time_s) == {START, use}


def test_time_after_the_return_of_a_script_is_classified(monkeypatch: pytest.MonkeyPatch) -> None:
    for servers, use in ((0, EXPORT), (1, PEERS)):
        session = Session(0, 1 << 20)
        session.connect(Hello(protocol=PROTOCOL))
        session.join(Cluster())
        observer = _observer(session, servers=servers)
        session.finish(Outcome(success=Success()))
        session.end()
        observer.look()
        assert list(observer.status.time_s) == [use] and observer.status.phase == EXPORTING
        observer.look(is_over=True)
        assert observer.status.phase == ENDED


def test_script_that_cannot_write_counts_as_waiting_for_data() -> None:
    session = Session(0, 1)
    session.connect(Hello(protocol=PROTOCOL))
    session.join(Cluster())
    session.report(Progress(activity=WORKING))
    session.add_rows(Output(rows=Rows(rows=9)))
    observer = _observer(session)
    observer.look()
    assert list(observer.status.time_s) == [DATA]


@pytest.mark.parametrize(("kind", "done"), [("batch", 0), ("stream", 5)])
def test_status_has_the_rows_of_a_stream_that_are_done(kind: str, done: int) -> None:
    session = Session(0, 1 << 20)
    session.report(Progress(rows_read=7))
    session.add_rows(Output(cut=5))
    session.take_rows()
    assert _observer(session, kind=kind).status.rows_done == done


def test_a_script_that_has_failed_exports_nothing() -> None:
    session = Session(0, 1 << 20)
    session.connect(Hello(protocol=PROTOCOL))
    session.join(Cluster())
    session.end_input()
    observer = _observer(session)
    session.finish(Outcome(failure=Failure(type="KeyError", message="'x'")))
    observer.look()
    assert observer.status.phase == TRAINING and observer.status.failed


def test_a_status_is_stored_with_flinks_logs(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path))
    observer = _observer(Session(0, 1 << 20))
    for number in range(600):
        observer.note_line(f"{number} " + 1000 * "x")
    observer.look()
    (path,) = tmp_path.iterdir()
    assert path.name == "akdl-group-chief-0-0.status"
    status = MemberStatus.FromString(path.read_bytes())
    assert status.lines_before + len(status.lines) == 600 and 10 < len(status.lines) < 100
    assert status.lines[-1].startswith("599 ")


def test_reports_are_logged_every_few_seconds_and_the_last_one_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, lines, session = [100.0], list[str](), Session(2, 1 << 20)
    observer = _observer(session, log=lines)
    monkeypatch.setattr("bridge.member.observer.time.monotonic", lambda: now[0])

    def report(number: int, after_s: float, is_last: bool = False, **metrics: float) -> None:
        now[0] += after_s
        session.report(Progress(report=Report(number=number, step=10 * number, metrics=metrics)))
        observer.log_report(is_last)

    observer.log_report()
    report(1, 1.0, loss=1.0)
    report(2, REPORT_EVERY_S / 2)
    report(3, REPORT_EVERY_S / 2, loss=0.125, nan=float("nan"))
    report(4, 0.1)
    report(4, 0.1, is_last=True)
    report(4, 0.1, is_last=True)
    assert all(line.startswith(REPORT_PREFIX) for line in lines)
    found = [json.loads(line[len(REPORT_PREFIX) :]) for line in lines]
    assert [one["step"] for one in found] == [10, 30, 40]
    assert found[1] == {
        "member": "chief 0",
        "attempt": 2,
        "step": 30,
        "metrics": {"loss": 0.125, "nan": None},
    }


@pytest.mark.parametrize(
    ("moved", "worked_s", "cpu_s", "idle_s", "is_spinning"),
    [
        (0, 0.0, 0.0, 4.0, False),
        (1, 0.0, 4.0, 0.0, False),  # it has taken or written rows, or reported
        (0, 4.0 * BUSY + 0.01, 4.0, 0.0, False),  # it computes
        # as a process does that waits for others
        (0, 4.0 * BUSY - 0.01, 4.0 * BUSY - 0.01, 4.0, False),
        (0, 0.0, 4.0, 4.0, True),  # it polls, or loops
    ],
)
def test_progress_is_moved_rows_or_used_processor_time(
    moved: int, worked_s: float, cpu_s: float, idle_s: float, is_spinning: bool
) -> None:
    progress = ProgressWatch(100.0)
    progress.look(104.0, moved, worked_s, cpu_s)
    assert (progress.idle_s, progress.is_spinning) == (idle_s, is_spinning)


def test_progress_compares_with_the_previous_observation() -> None:
    progress = ProgressWatch(0.0)
    progress.look(1.0, moved=5, worked_s=3.0)
    for second in range(2, 22):
        # less than BUSY of each second
        progress.look(second, moved=5, worked_s=3.0 + (second - 1) * 0.9 * BUSY)
    assert progress.idle_s == 20.0
    progress.look(22.0, moved=5, worked_s=3.0 + 20 * 0.9 * BUSY + 1.1 * BUSY)
    assert progress.idle_s == 0.0


def test_short_burst_of_work_does_not_count_as_spinning() -> None:
    progress = ProgressWatch(0.0, cpu_s=5.0)  # of its start
    progress.look(10.0, moved=0, worked_s=0.0, cpu_s=5.0)
    progress.look(11.0, moved=0, worked_s=0.0, cpu_s=5.0 + 5 * BUSY)
    assert not progress.is_spinning, "a garbage collection, perhaps"
    for second in range(12, 17):
        progress.look(float(second), moved=0, worked_s=0.0, cpu_s=second - 6.0)
    assert progress.is_spinning and progress.idle_s == 11.0


def test_waiting_for_flink_does_not_count_as_idle() -> None:
    progress = ProgressWatch(0.0)
    progress.look(3.0, moved=0, worked_s=0.0)
    for second in range(4, 10):
        progress.look(float(second), moved=0, worked_s=0.0, awaits_flink=True)
    assert progress.idle_s == 0.0
    progress.look(10.0, moved=0, worked_s=0.0)
    assert progress.idle_s == 1.0


def test_end_of_a_script_counts_as_progress_once() -> None:
    progress = ProgressWatch(0.0)
    progress.look(4.0, moved=0, worked_s=0.0)
    progress.end()
    assert progress.idle_s == 0.0
    progress.look(7.0, moved=0, worked_s=0.0)
    progress.end()
    assert progress.idle_s == 3.0


def test_idle_time_after_a_sleep_of_the_host_is_bounded() -> None:
    progress = ProgressWatch(0.0)
    progress.look(3600.0, moved=0, worked_s=0.0)
    assert progress.idle_s == MOST_IDLE_S


def test_status_of_a_predicting_task_has_phases_rows_and_times(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path))
    seen = []

    def look() -> MemberStatus:
        (status,) = registry.statuses(["predicts_1"])
        seen.append(status.phase)
        return status

    task = TaskObserver("predicts_1", 3, 0)
    look()
    task.loaded("")
    look()
    task.add(10, 0.0)
    task.add(5, 0.0)
    task.end()
    status = look()
    assert seen == [STARTING, FEEDING, ENDED]
    assert (status.rows_in, status.rows_out, status.label) == (15, 15, "task 3")
    assert set(status.time_s) == {START, DATA, WORK} and sum(
        status.time_s.values()
    ) == pytest.approx(status.age_s)
    (path,) = tmp_path.iterdir()
    assert (
        path.name == "akdl-predicts_1-task-3-0.ended"
        and MemberStatus.FromString(path.read_bytes()) == status
    )
    registry.forget_groups(["predicts_1"])
    assert registry.statuses(["predicts_1"]) == []
