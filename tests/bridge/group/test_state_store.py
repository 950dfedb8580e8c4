"""What member 0 answers, without a line."""

from __future__ import annotations

from typing import Any

import pytest

from akdl.wire import ENDED, RUNNING, GroupState, MemberReport, MemberState, Phase
from bridge.group.state_store import (
    LOST_S,
    REPORT_S,
    STILL_S,
    StateStore,
    ask_all_s,
    report_s,
    stands_still,
)
from bridge.schema import Schema
from bridge.settings import GroupSettings

SCHEMA = Schema.parse("id BIGINT")


def ask(
    store: StateStore,
    index: int,
    version: int = 0,
    now: float = 0.0,
    wants_all: bool = False,
    **state: Any,
) -> GroupState:
    own = MemberState(index=index, phase=state.pop("phase", RUNNING), **state)
    return store.answer(MemberReport(state=own, version=version, wants_all=wants_all), now)


def told(answer: GroupState) -> list[int]:
    return sorted(state.index for state in answer.members)


def test_essential_changes_of_a_state_are_sent_once() -> None:
    store = StateStore()
    first = ask(store, 0)
    assert told(first) == [0]
    second = ask(store, 1)
    assert told(second) == [0, 1]
    assert told(ask(store, 0, first.version)) == [1]
    assert told(ask(store, 0, second.version, rows=7, rows_read=3, idle_s=2.0)) == []
    assert told(ask(store, 1, second.version)) == []
    ended = ask(store, 1, second.version, rows=7, input_ended=True)
    assert told(ended) == [1]
    assert told(ask(store, 0, second.version, rows=8)) == [1], (
        "and again, as long as the member does not know it"
    )
    assert told(ask(store, 0, ended.version, rows=9)) == []


def test_member_that_asks_for_all_gets_the_latest_states() -> None:
    store = StateStore()
    ask(store, 0, rows=1)
    version = ask(store, 1).version
    ask(store, 0, version, now=1.0, rows=5)
    answer = ask(store, 1, version, now=3.0, wants_all=True)
    assert answer.is_all and [(state.rows, state.silent_s) for state in answer.members] == [
        (5, 2.0),
        (0, 0.0),
    ]


def test_silent_member_and_its_return_are_reported() -> None:
    store = StateStore()
    ask(store, 1)
    ask(store, 2, phase=ENDED)
    version = ask(store, 0).version
    assert told(ask(store, 0, version, now=LOST_S - 1)) == []
    lost = ask(store, 0, version, now=LOST_S + 1)
    assert [(state.index, state.silent_s) for state in lost.members] == [(1, LOST_S + 1)]
    assert told(ask(store, 0, lost.version, now=LOST_S + 9)) == []
    ask(store, 1, now=LOST_S + 10)
    assert [
        (state.index, state.silent_s)
        for state in ask(store, 0, lost.version, now=LOST_S + 11).members
    ] == [(1, 0.0)]


def test_an_older_report_that_arrives_late_does_not_revive_a_member() -> None:
    store = StateStore()
    ask(store, 1, phase=ENDED)
    ask(store, 1, rows=3)
    assert [state.phase for state in ask(store, 0).members if state.index == 1] == [ENDED]


def test_the_time_since_the_end_of_a_member_that_still_reports_is_known() -> None:
    store = StateStore()
    ask(store, 0, phase=ENDED)
    ask(store, 0, phase=ENDED, now=9.0, idle_s=9.0)
    (chief,) = (
        state for state in ask(store, 1, now=10.0, wants_all=True).members if state.index == 0
    )
    assert (chief.idle_s, chief.silent_s) == (9.0, 1.0)


def test_a_member_waits_for_its_first_answer_as_long_as_it_reports() -> None:
    store = StateStore()
    version = ask(store, 1, phase=ENDED).version
    assert store.waits_for_answer(1, LOST_S / 4)
    ask(store, 1, phase=ENDED, now=LOST_S / 4)
    assert store.waits_for_answer(1, LOST_S / 2) and not store.waits_for_answer(1, LOST_S)
    ask(store, 1, version, phase=ENDED, now=LOST_S / 2)
    ask(store, 1, phase=ENDED, now=LOST_S / 2)  # an older report that is late
    assert not store.waits_for_answer(1, LOST_S / 2)


def test_all_reports_of_a_large_group_cost_no_more_than_those_of_a_small_one() -> None:
    assert report_s(2, False) == report_s(25, False) == REPORT_S
    assert report_s(128, False) == 1.28 and report_s(128, True) == pytest.approx(0.32)
    assert report_s(10_000, False) * 3 <= LOST_S, "none counts as lost"
    assert ask_all_s(10) == REPORT_S and ask_all_s(1000) == 20.0


@pytest.mark.parametrize(
    ("phase", "values", "stall_timeout_s", "expected"),
    [
        (RUNNING, {"idle_s": STILL_S}, 600.0, True),
        (RUNNING, {"idle_s": STILL_S - 1}, 600.0, False),
        (RUNNING, {"idle_s": STILL_S}, 0.0, True),
        (RUNNING, {"idle_s": 1.0}, 2.0, True),
        (RUNNING, {"idle_s": STILL_S, "waiting": True}, 600.0, False),
        (ENDED, {"idle_s": STILL_S}, 600.0, False),
    ],
)
def test_stalled_member_is_known_by_phase_idle_time_and_timeout(
    phase: Phase, values: dict[str, Any], stall_timeout_s: float, expected: bool
) -> None:
    settings = GroupSettings(
        "Op", "batch", 2, 0, SCHEMA, SCHEMA, "s.py", (), stall_timeout_s=stall_timeout_s
    )
    assert stands_still(MemberState(phase=phase, **values), settings) is expected
