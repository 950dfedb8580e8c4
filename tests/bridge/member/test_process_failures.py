"""Whose failure it is, and whether a script moves."""

from __future__ import annotations

import signal

import pytest

from akdl.wire import Failure
from bridge.member.script_process import (
    comes_from_a_peer,
    describe_death,
    describe_desertion,
    describe_failure,
    paragraphs,
)


@pytest.mark.parametrize(
    ("failure", "lines", "expected"),
    [
        (Failure(type="ValueError", message="labels must be 0 or 1"), [], False),
        (
            Failure(type="ResourceExhaustedError", message="OOM when allocating tensor"),
            ["connection reset"],
            False,
        ),
        (Failure(type="UnavailableError", message="anything"), [], True),
        (Failure(type="AbortedError", message="anything"), [], True),
        (Failure(type="InternalError", message="Collective ops is aborted by: peer"), [], True),
        (Failure(type="RuntimeError", message="Connection reset by peer"), [], True),
        (
            None,
            ["F tsl: Terminating process because the coordination service detected missing tasks"],
            True,
        ),
        (None, ["Segmentation fault"], False),
    ],
)
def test_failures_caused_by_a_peer_are_told_apart_from_own_ones(
    failure: Failure | None, lines: list[str], expected: bool
) -> None:
    assert comes_from_a_peer(failure, lines) == expected


def test_failures_and_deaths_are_described_in_one_sentence() -> None:
    assert (
        describe_failure(Failure(type="KeyError", message="'x'"))
        == "the script failed: KeyError: 'x'"
    )
    assert (
        describe_failure(Failure(type="ScriptError", message="no main"))
        == "the script failed: no main"
    )
    assert describe_death(-signal.SIGKILL, True).endswith(
        "too little memory) before the script had ended"
    )
    assert "Is its Python environment complete?" in describe_death(1, False)
    assert describe_desertion([]) == ""
    assert (
        "the script had returned in worker 0, worker 1. With MultiWorkerMirroredStrategy"
        in describe_desertion(["worker 0", "worker 1"])
    )
    assert paragraphs("a\n", "", "b") == "a\nb"
