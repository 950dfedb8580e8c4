"""Whose failure it is, and whether a script moves."""

from __future__ import annotations

import signal

import pytest

from akdl.wire import Failure
from bridge.member.failures import comes_from_a_peer, describe_death, describe_failure, paragraphs
from bridge.member.progress import ProgressWatch


@pytest.mark.parametrize(
    ("failure", "lines", "expected"),
    [
        (Failure(type="ValueError", message="labels must be 0 or 1"), [], False),
        (Failure(type="ResourceExhaustedError", message="OOM when allocating tensor"), ["connection reset"], False),
        (Failure(type="UnavailableError", message="anything"), [], True),
        (Failure(type="AbortedError", message="anything"), [], True),
        (Failure(type="InternalError", message="Collective ops is aborted by: peer"), [], True),
        (Failure(type="RuntimeError", message="Connection reset by peer"), [], True),
        (None, ["F tsl: Terminating process because the coordination service detected missing tasks"], True),
        (None, ["Segmentation fault"], False),
    ],
)
def test_echoes_are_told_from_reasons(failure: Failure | None, lines: list[str], expected: bool) -> None:
    assert comes_from_a_peer(failure, lines) == expected


def test_descriptions() -> None:
    assert describe_failure(Failure(type="KeyError", message="'x'")) == "the script failed: KeyError: 'x'"
    assert describe_failure(Failure(type="ScriptError", message="no main")) == "the script failed: no main"
    assert describe_death(-signal.SIGKILL, True).endswith("too little memory) before the script had ended")
    assert "is its environment complete?" in describe_death(1, False)
    assert paragraphs("a\n", "", "b") == "a\nb"


def test_progress_is_rows_or_processor_time() -> None:
    progress = ProgressWatch(100.0)
    progress.look(110.0, rows=0, cpu_s=0.1)
    assert progress.idle_s(111.0) == 11.0
    progress.look(112.0, rows=1, cpu_s=0.1)
    assert progress.idle_s(113.0) == 1.0, "it took a row"
    progress.look(122.0, rows=1, cpu_s=1.1)
    assert progress.idle_s(122.0) == 0.0, "it computed for a second of ten"
    progress.look(132.0, rows=1, cpu_s=1.5)
    assert progress.idle_s(132.0) == 10.0
