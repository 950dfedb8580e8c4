"""The thread that looks at members and shows lines."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import TypeVar

import pytest

from akdl.wire.status_pb2 import MemberStatus
from bridge.member.status import ENDED, FEEDING
from operators.flink.rest import RestError
from operators.progress import display
from operators.progress.display import StatusPoller
from operators.progress.record import read_record
from operators.progress.state import Line, Shown
from operators.progress.status_sources import StatusSource
from tests.support.statuses import status_of

_T = TypeVar("_T")


class _Source(StatusSource):
    """Gives the next of the answers at each look, and the next of the steps where the job has no
    status.
    """

    def __init__(
        self,
        *answers: list[MemberStatus] | Exception,
        steps: Sequence[str | Exception] = (),
        late: Sequence[str | Exception] = (),
    ) -> None:
        super().__init__({"g"})
        self._answers, self._steps, self.late = list(answers), list(steps), list(late)

    def read(self, is_last: bool = False) -> list[MemberStatus]:
        return _next(self._answers)

    def start_step(self) -> str:
        return _next(self._steps) if self._steps else ""

    def late_start(self, limit_s: float) -> str:
        return _next(self.late)


def _next(answers: list[_T | Exception]) -> _T:
    answer = answers.pop(0)
    if isinstance(answer, Exception):
        raise answer
    return answer


class _Renderer:
    def __init__(self) -> None:
        self.ended: list[str] = []

    def show(self, lines: Sequence[Line]) -> None:
        """Do nothing."""

    def end(self, lines: Sequence[Line]) -> None:
        self.ended = list(map(str, lines))


def _status(**known: object) -> MemberStatus:
    return status_of("g", 0, "chief 0", **known)  # type: ignore[arg-type]


def test_last_status_is_shown_at_the_end() -> None:
    renders = _Renderer()
    source = _Source(
        [_status(phase=ENDED, rows_in=7), status_of("other", 0, "chief 0", rows_in=99)]
    )
    watch = StatusPoller({"g": Shown("a.py", trains=True)}, source, renders, says=False)
    watch.stop(failed=False)
    watch.run()
    assert renders.ended == ["a.py: 7 rows, 0 s: start 100%"]


def test_failing_source_of_statuses_does_no_harm() -> None:
    watch = StatusPoller(
        {"g": Shown("a.py")},
        _Source(OSError("gone"), [_status(phase=FEEDING)]),
        _Renderer(),
        says=False,
    )
    watch.look()
    watch.look()
    assert watch.states["g"].line().text == "feeding"


def test_output_of_processes_on_other_hosts_is_printed_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = _Source(
        [_status(lines=("a", "b"))],
        [_status(lines=("b", "c"), lines_before=1)],
        [_status(lines=("z",), lines_before=9)],
    )
    watch = StatusPoller({"g": Shown("a.py")}, source, None, says=True)
    for _ in range(3):
        watch.look()
    assert capsys.readouterr().out.splitlines() == [
        "[a.py, chief 0] a",
        "[a.py, chief 0] b",
        "[a.py, chief 0] c",
        "[a.py, chief 0] (6 lines are left out here; they are in its log file, next to Flink's)",
        "[a.py, chief 0] z",
    ]


def test_record_is_written_even_if_no_line_is_shown(tmp_path: pathlib.Path) -> None:
    renders = _Renderer()
    watch = StatusPoller(
        {"g": Shown("a.py", visible=False, log_dir=str(tmp_path))}, _Source([_status(rows_in=7)]), renders,
        says=False,
    )  # fmt: skip
    watch.stop(failed=True)
    watch.run()
    (path,) = tmp_path.iterdir()
    record = read_record(path.read_text())
    assert record.failed and record.samples["chief 0"][0][1].rows_in == 7 and renders.ended == []


def test_running_operators_are_shown_where_those_of_the_job_are_unknown() -> None:
    source = _Source([], [_status(phase=FEEDING)])
    watch = StatusPoller(
        {"g": Shown("a.py"), "h": Shown("b.py")}, source, _Renderer(), says=False, told=[]
    )
    watch.look()
    assert [line.text for line in watch.lines()] == ["no script or model runs yet, 0 s"]
    watch.look()
    assert [str(line) for line in watch.lines()] == ["a.py: feeding"] and watch.seen == {"g"}


def test_reason_of_waiting_is_shown_until_a_member_has_a_status() -> None:
    source = _Source([], [], [_status(phase=FEEDING)], steps=[OSError("busy"), "waiting for slots"])
    watch = StatusPoller({"g": Shown("a.py")}, source, _Renderer(), says=False)
    lines = []
    for _ in range(3):
        watch.look()
        lines.append(watch.states["g"].line().text)
    assert lines == ["Flink starts, 0 s", "waiting for slots, 0 s", "feeding"]


def test_late_python_worker_is_reported_once_even_without_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    monkeypatch.setattr(display, "warn", said.append)
    monkeypatch.setattr(display, "LATE_LOOK_S", 0.0)
    source = _Source(OSError("is not read"), late=[RestError("no answer"), "", "it is late"])
    watch = StatusPoller({"g": Shown("a.py", start_timeout_s=0.0)}, source, None, says=False)
    for _ in range(5):
        watch.look()
    assert said == ["it is late"] and source.late == []


def test_a_worker_is_not_late_before_its_operators_timeout() -> None:
    source = _Source(late=["it is late"])
    StatusPoller({"g": Shown("a.py", start_timeout_s=60.0)}, source, None, says=False).look()
    assert source.late == ["it is late"]
