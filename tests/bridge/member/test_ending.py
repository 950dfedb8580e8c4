"""What is told of scripts that have ended well; real ones are in test_script_faults.py."""

from __future__ import annotations

import pytest

from akdl.wire import Outcome, Success
from bridge.member.ending import tell_end, trained_apart
from bridge.member.session import Session
from bridge.schema import Schema
from bridge.settings import GroupSettings

SCHEMA = Schema.parse("x INT")


def settings(trains_apart: bool = False) -> GroupSettings:
    return GroupSettings(
        operator="Op", kind="train", num_workers=3, num_ps=0, input_schema=SCHEMA, output_schema=SCHEMA, main_script="s.py",
        user_files=(), trains_apart=trains_apart,
    )  # fmt: skip


def test_a_training_whose_workers_nobody_asked_for() -> None:
    said = trained_apart([4, 3, 3])
    assert said.startswith("the model of the chief has seen 4 of 10 rows: numWorkers was left to the parallelism, so 3 workers")


@pytest.mark.parametrize(("apart", "sizes", "lines"), [(True, (4, 3, 3), 2), (True, (), 1), (False, (4, 3, 3), 1)])
def test_what_is_told_once_and_by_the_first_member_alone(
    capsys: pytest.CaptureFixture[str], apart: bool, sizes: tuple[int, ...], lines: int
) -> None:
    session = Session(0, 1, "Op, chief 0")
    session.outcome = Outcome(success=Success(warnings=["it has lost a thread"]))
    tell_end("Op, chief 0", session, settings(apart), True, sizes)
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "akdl: Op, chief 0 (s.py): it has lost a thread" and len(told) == lines
