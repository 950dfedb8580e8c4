"""Operators of jobs that a program starts by itself."""

from __future__ import annotations

import pytest

from bridge.member.registry import forget_groups, note
from bridge.member.status import ENDED, FEEDING, WORK
from operators.flink.rest import Rest
from operators.progress import linked
from operators.progress.linked import note_linked, note_told, shown_if_seen
from operators.progress.renderers import SWITCH
from operators.progress.state import Shown
from tests.support.statuses import status_of

OPERATORS = {"linked_1": Shown("a.py"), "linked_2": Shown("b.py")}


@pytest.fixture(autouse=True)
def nothing_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setattr(linked, "_linked", {})
    monkeypatch.setattr(linked, "_told", set())


def test_a_job_that_is_waited_for_late_is_shown_once(capsys: pytest.CaptureFixture[str]) -> None:
    def shown() -> list[str]:
        with shown_if_seen():
            pass
        return capsys.readouterr().err.splitlines()

    assert shown() == []
    note_linked(OPERATORS, None)
    assert shown() == []
    ended = status_of("linked_1", 0, "chief 0", phase=ENDED, rows_in=7, rows_out=5, age_s=30.0, time_s={WORK: 30.0})
    note(ended)
    assert shown() == ["a.py: 7 rows in, 5 out, 30 s: useful work 100%"]
    note(ended)  # as a file beside Flink's logs says it still
    assert shown() == []
    note(status_of("linked_1", 0, "chief 0", phase=FEEDING, rows_in=9, age_s=3.0, time_s={WORK: 3.0}))
    assert shown() == ["a.py: 9 rows, 3 s: useful work 100%"]
    note_told(OPERATORS)
    note(status_of("linked_2", 0, "chief 0", phase=ENDED))
    assert shown() == []
    forget_groups(OPERATORS)


def test_operators_of_another_place_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    note_linked({"linked_1": OPERATORS["linked_1"]}, Rest("nowhere:1"))
    note_linked({"linked_2": OPERATORS["linked_2"]}, None)
    note(status_of("linked_1", 0, "chief 0", phase=FEEDING))
    with shown_if_seen():
        pass
    assert capsys.readouterr().err == ""
    forget_groups(OPERATORS)


def test_what_was_linked_is_kept_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linked, "_MOST", 1)
    note_linked(OPERATORS, None)
    assert list(linked._linked) == ["linked_2"]
