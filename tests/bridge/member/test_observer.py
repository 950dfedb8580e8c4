"""What an observer sees of a member."""

from __future__ import annotations

import pathlib
import threading

import pytest

from akdl.wire import Cluster, Failure, Hello, Outcome, Progress, Report, Success
from akdl.wire.service import PROTOCOL
from bridge.member.observer import Observer
from bridge.member.session import Session
from bridge.member.status import ENDED, EXPORTING, FEEDING, JOINING, STARTING, TRAINING, MemberStatus
from bridge.schema import Schema
from bridge.settings import GroupSettings

SCHEMA = Schema.parse("x INT")
SETTINGS = GroupSettings(
    operator="Op", kind="train", num_workers=1, num_ps=1, input_schema=SCHEMA, output_schema=SCHEMA, main_script="m.py",
    user_files=(),
)  # fmt: skip


def _observer(session: Session, index: int = 0) -> Observer:
    return Observer(SETTINGS, "group", index, session, threading.Condition(), lambda: (1.5, 1 << 20))


def test_phases_follow_the_session() -> None:
    session = Session(2, 1 << 20)
    observer, seen = _observer(session), []

    def look() -> None:
        observer.look()
        seen.append(observer.status.phase)

    look()
    session.connect(Hello(attempt=2, protocol=PROTOCOL))
    look()
    session.cluster = Cluster()
    look()
    observer.rows = 7
    session.end_input()
    session.report(Progress(rows_read=5, report=Report(number=1, step=3, metrics={"loss": 0.5, "bad": float("nan")})))
    look()
    session.report(Progress(rows_read=7, exporting=True))
    look()
    session.finish(Outcome(success=Success(rows_read=7)))
    observer.look(is_over=True)
    status = observer.status
    assert seen == [STARTING, JOINING, FEEDING, TRAINING, EXPORTING] and status.phase == ENDED
    assert (status.rows_in, status.rows_read, status.attempt, status.cpu_s) == (7, 7, 2, 1.5)
    assert (status.step, status.metrics, status.is_worker) == (3, {"bad": None, "loss": 0.5}, True)
    assert not _observer(session, 1).status.is_worker


def test_a_script_that_has_failed_exports_nothing() -> None:
    session = Session(0, 1 << 20)
    session.connect(Hello(protocol=PROTOCOL))
    session.cluster = Cluster()
    session.end_input()
    observer = _observer(session)
    session.finish(Outcome(failure=Failure(type="KeyError", message="'x'")))
    observer.look()
    assert observer.status.phase == TRAINING and observer.status.failed


def test_a_status_lies_beside_flinks_logs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path))
    observer = _observer(Session(0, 1 << 20))
    for number in range(600):
        observer.note_line(f"{number} " + 1000 * "x")
    observer.look()
    (path,) = tmp_path.iterdir()
    assert path.name == "akdl-group-chief-0-0.status"
    status = MemberStatus.from_json(path.read_text())
    assert status.lines_before + len(status.lines) == 600 and 10 < len(status.lines) < 100
    assert status.lines[-1].startswith("599 ")
