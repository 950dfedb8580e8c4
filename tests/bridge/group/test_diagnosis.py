"""What a member says is wrong with its group, from states alone."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from akdl.wire import ENDED, RUNNING, STARTING, MemberState
from bridge.group.diagnosis import ECHO_S, LOST_S, Fault, Situation, fault_of
from bridge.group.states import LEFT_ALONE_S, KnownStates
from bridge.schema import Schema
from bridge.settings import GroupSettings

SCHEMA = Schema.parse("id BIGINT")
SETTINGS = GroupSettings(
    operator="Op", kind="batch", num_workers=2, num_ps=1, input_schema=SCHEMA, output_schema=SCHEMA, main_script="s.py",
    user_files=(), start_timeout_s=60.0, stall_timeout_s=100.0,
)  # fmt: skip
WELL = Situation(
    index=0,
    age_s=66.0,
    is_connected=True,
    has_addresses=True,
    is_running=True,
    has_outcome=False,
    hub="host-0:4711",
)


def state(index: int, phase: int = RUNNING, **values: Any) -> MemberState:
    return MemberState(index=index, phase=phase, **values)


def found(states: list[MemberState], **changes: Any) -> Fault | None:
    settings = dataclasses.replace(
        SETTINGS, stall_timeout_s=changes.pop("stall_timeout_s", SETTINGS.stall_timeout_s)
    )
    group = KnownStates(settings)
    group.update(states)
    return fault_of(dataclasses.replace(WELL, **changes), group, settings)


ALL = [state(0), state(1), state(2)]


def test_nothing_is_wrong_with_a_group_that_works() -> None:
    assert found(ALL) is None


@pytest.mark.parametrize(
    ("states", "changes", "words"),
    [
        (
            [state(0, STARTING)],
            {"is_connected": False},
            "the process did not connect within the 60 s of startTimeout",
        ),
        (
            [state(0)],
            {"has_addresses": False, "unaddressed": [1, 2]},
            "the address of worker 0, ps 0 did not arrive",
        ),
        (ALL[:2], {}, "ps 0 did not report or connect. .* reaches host-0:4711"),
        (
            ALL[:2],
            {"unanswered_s": 2.0, "last_error": "REFUSED"},
            "the chief does not answer at host-0:4711 \\(REFUSED\\)",
        ),
    ],
)
def test_a_group_that_is_not_complete_is_a_fault_after_the_timeout_only(
    states: list[MemberState], changes: dict[str, Any], words: str
) -> None:
    fault = found(states, **changes)
    assert fault is not None and not fault.is_standstill
    assert re.search(words, fault.what), fault.what
    assert found(states, **changes, age_s=59.0) is None


def test_unconnected_member_reports_itself_before_other_members_do() -> None:
    late = [state(0), state(1, STARTING), state(2)]
    assert found(late, index=1, is_connected=False, age_s=61.0) is not None
    assert found(late, age_s=61.0) is None
    assert found(late, age_s=66.0) is not None


def test_a_script_that_starts_again_has_to_connect_too() -> None:
    group = KnownStates(SETTINGS)
    group.update(ALL)
    assert group.is_formed
    group.update([state(0, STARTING)])
    again = dataclasses.replace(WELL, is_connected=False, is_running=False)
    fault = fault_of(again, group, SETTINGS)
    assert (
        fault is not None
        and "the process did not connect within the 60 s of startTimeout" in fault.what
    )
    assert fault_of(dataclasses.replace(again, age_s=59.0), group, SETTINGS) is None


@pytest.mark.fault("network", "A chief that does not answer is named after 30 s")
def test_chief_that_does_not_answer_is_a_fault() -> None:
    fault = found(ALL, unanswered_s=LOST_S + 1, last_error="UNAVAILABLE: gone")
    assert (
        fault is not None
        and "the chief has not answered for 30 s at host-0:4711 (UNAVAILABLE: gone)" in fault.what
    )
    assert found(ALL, unanswered_s=LOST_S - 1) is None


@pytest.mark.fault("jobs", "A member without reports for 30 s is named")
def test_a_member_that_has_fallen_silent_is_named() -> None:
    states = [state(0), state(1, silent_s=LOST_S + 1), state(2)]
    fault = found(states)
    assert fault is not None and fault.what.startswith(
        "worker 0 has not reported for 30 s. Has its host failed"
    )
    assert found([state(0), state(1, silent_s=LOST_S - 1), state(2)]) is None
    assert found([state(0), state(1, ENDED, silent_s=LOST_S + 1), state(2)]) is None, (
        "it has left, as it should"
    )
    assert found(states, index=1) is None, "it speaks again"
    assert found([state(0, ENDED), *states[1:]], is_running=False) is not None, (
        "a chief that has ended waits for it"
    )


def test_parameter_server_that_returned_before_stalled_workers_is_a_fault() -> None:
    still = [state(0, idle_s=LEFT_ALONE_S), state(1, idle_s=LEFT_ALONE_S), state(2)]
    fault = found(still, index=2, has_outcome=True)
    assert fault is not None and "set numPSs to 0" in fault.what
    failed = found(still, index=2, has_outcome=True, failure="the script failed: it broke")
    assert failed is not None and failed.what.startswith(
        "the script failed: it broke, but the workers that it serves"
    )
    assert found(still, index=2) is None, "it still serves"
    assert found(still, index=2, has_outcome=True, is_running=False) is None, "it has ended"


def test_lagging_member_reports_the_standstill() -> None:
    ended = state(2, ENDED, silent_s=200)
    states = [state(0, idle_s=101, rows_read=1), state(1, idle_s=101, rows_read=2), ended]
    fault = found(states)
    assert (
        fault is not None
        and fault.is_standstill
        and "for 100 s, and this script lags behind" in fault.what
    )
    assert found(states, index=1) is None, "the other knows better where it stands"
    later = [
        state(0, idle_s=101 + ECHO_S, rows_read=1),
        state(1, idle_s=101 + ECHO_S, rows_read=2),
        ended,
    ]
    fault = found(later, index=1)
    assert fault is not None and "and chief 0 lags behind" in fault.what
    assert found([*states[:2], state(2, ENDED)]) is None, (
        "it has just ended, and they may have waited for it"
    )
    assert found(states, stall_timeout_s=0.0) is None, "no limit was asked for"
