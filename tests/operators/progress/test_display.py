"""The thread that looks at members and shows lines."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest

from akdl.wire.status_pb2 import MemberStatus
from bridge.member.status import ENDED, FEEDING
from operators.progress.display import StatusPoller
from operators.progress.record import read_record
from operators.progress.state import Line, Shown
from tests.support.statuses import status_of


class _Source:
    def __init__(self, *answers: list[MemberStatus] | Exception) -> None:
        self._answers = list(answers)

    def __call__(self, is_last: bool) -> list[MemberStatus]:
        answer = self._answers.pop(0)
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


def test_the_last_look_is_shown_in_the_end() -> None:
    renders = _Renderer()
    source = _Source([_status(phase=ENDED, rows_in=7), status_of("other", 0, "chief 0", rows_in=99)])
    watch = StatusPoller({"g": Shown("a.py", trains=True)}, source, renders, says=False)
    watch.stop(failed=False)
    watch.run()
    assert renders.ended == ["a.py: 7 rows, 0 s: start 100%"]


def test_a_source_that_fails_fails_nothing() -> None:
    watch = StatusPoller({"g": Shown("a.py")}, _Source(OSError("gone"), [_status(phase=FEEDING)]), None, says=False)
    watch.look()
    watch.look()
    assert watch.states["g"].line().text == "feeding"


def test_what_processes_elsewhere_print_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    source = _Source(
        [_status(lines=("a", "b"))], [_status(lines=("b", "c"), lines_before=1)], [_status(lines=("z",), lines_before=9)]
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


def test_a_record_is_written_whether_the_line_is_shown_or_not(tmp_path: pathlib.Path) -> None:
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


def test_of_a_job_whose_operators_are_not_known_those_that_run_are_shown() -> None:
    source = _Source([], [_status(phase=FEEDING)])
    watch = StatusPoller({"g": Shown("a.py"), "h": Shown("b.py")}, source, None, says=False, told=[])
    watch.look()
    assert [line.text for line in watch.lines()] == ["no script or model runs yet, 0 s"]
    watch.look()
    assert [str(line) for line in watch.lines()] == ["a.py: feeding"] and watch.seen == {"g"}


def test_what_a_job_waits_for_is_asked_until_a_member_has_a_status() -> None:
    answers = iter([OSError("busy"), "waiting for slots"])

    def waits() -> str:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return str(answer)

    source = _Source([], [], [_status(phase=FEEDING)])
    watch = StatusPoller({"g": Shown("a.py")}, source, None, says=False, waits=waits)
    lines = []
    for _ in range(3):
        watch.look()
        lines.append(watch.states["g"].line().text)
    assert lines == ["Flink starts, 0 s", "waiting for slots, 0 s", "feeding"]
