"""Warnings at the end of a program."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from bridge.member import registry
from operators.errors import exit_warnings
from tests.support.leftovers import DEADLINE_S


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(exit_warnings, "_checks", [])
    monkeypatch.setattr(exit_warnings, "_linked", {})
    return


def test_no_warning_after_all_jobs_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_seen", set())
    exit_warnings.note_linked("g1", "TensorFlow2BatchOp")
    registry.begin_groups(["g1"])
    registry.stop_groups(["g1"])
    exit_warnings.warn_at_exit(lambda: "")
    assert exit_warnings.exit_warnings() == []


def test_operator_without_a_job_is_warned_of_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    exit_warnings.note_linked("g1", "TensorFlow2BatchOp")
    exit_warnings.warn_at_exit(lambda: "print() was called")
    assert exit_warnings.exit_warnings() == [
        "print() was called",
        "no job has run TensorFlow2BatchOp: call print(), collectToDataframe() or insertInto(...), or wait for the job with "
        "waitForJob(result)",
    ]
    monkeypatch.setattr(registry, "seen", lambda: {"g1"})
    assert exit_warnings.exit_warnings() == ["print() was called"], "plain PyFlink has run it"


def test_running_job_is_warned_of_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    exit_warnings.note_linked("g1", "TensorFlow2StreamOp")
    monkeypatch.setattr(registry, "running", lambda: [("g1", "chief 0")])
    (said,) = exit_warnings.exit_warnings()
    assert said.startswith(
        "the program ended while a job was running in it (TensorFlow2StreamOp, chief 0), which ended the job too: wait"
    )


@pytest.mark.process
@pytest.mark.parametrize(
    ("end", "is_told"), [("", True), ("raise SystemExit(3)", True), ("raise KeyError('x')", False)]
)
def test_no_warning_after_an_error_has_ended_the_program(end: str, is_told: bool) -> None:
    code = (
        f"from operators.errors import exit_warnings\nexit_warnings.note_linked('g1', 'Op')\n{end}"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=4 * DEADLINE_S
    )
    assert ("akdl: no job has run Op: call print()" in run.stderr) is is_told, run.stderr
