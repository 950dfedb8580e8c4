"""The status of a member, as it travels, and the clock of its phases."""

from __future__ import annotations

import pytest

from bridge.member.status import ENDED, FEEDING, STARTING, TRAINING, Clock, MemberStatus


def test_a_status_comes_back_from_its_line() -> None:
    status = MemberStatus("g", 1, "worker 1", rows_in=3, metrics={"loss": 0.5, "bad": None}, lines=("żółć", "a\x1bb"))
    text = status.to_json()
    assert "\n" not in text and MemberStatus.from_json(text) == status


def test_entries_of_a_newer_release_are_left_out() -> None:
    assert MemberStatus.from_json('{"group": "g", "index": 0, "label": "chief 0", "mood": 7}').label == "chief 0"


@pytest.mark.parametrize("text", ["", "{", "[1]", "7", '{"group": "g"}'])
def test_what_is_no_status_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        MemberStatus.from_json(text)


def test_a_clock_adds_up_phases_and_waits() -> None:
    clock = Clock(10.0)
    clock.look(12.0, STARTING, True, False)
    clock.look(13.0, FEEDING, False, True)
    clock.look(15.0, FEEDING, False, False)
    clock.look(16.0, TRAINING, False, False)
    clock.look(17.0, FEEDING, False, False)  # a look that came late
    clock.look(20.0, ENDED, False, False)
    assert clock.phase_s == {STARTING: 2.0, FEEDING: 3.0, TRAINING: 2.0}
    assert (clock.script_waited_s, clock.flink_waited_s, clock.age_s(), clock.phase) == (2.0, 1.0, 10.0, ENDED)
