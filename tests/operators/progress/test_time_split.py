"""The split of a member's time, over attempts."""

from __future__ import annotations

from typing import Any

import pytest

from akdl.wire.status_pb2 import MemberStatus
from bridge.member.status import DATA, EXPORT, LOST, PEERS, READ, START, USES, WORK
from operators.progress.time_split import WORDS, TimeSplit, added, described, percentages
from tests.support.statuses import status_of


def _status(attempt: int, rows_done: int = 0, **time_s: float) -> MemberStatus:
    return status_of(
        "g",
        0,
        "chief 0",
        attempt=attempt,
        rows_done=rows_done,
        time_s=time_s,
        age_s=sum(time_s.values()),
    )


def _split(*looks: tuple[float, MemberStatus, int]) -> dict[str, float]:
    """Return the used seconds after looks at a time, with a step, of a job that began at 100."""
    split, first = TimeSplit(100.0), dict[int, int]()
    for now, status, step in looks:
        if step:
            first.setdefault(status.attempt, step)
        split.look(now, status, first.get(status.attempt, 0), step)
        assert sum(split.time_s.values()) == pytest.approx(now - 100.0), "each second counts once"
    return {use: seconds for use, seconds in split.time_s.items() if seconds}


def test_the_time_before_a_member_starts_belongs_to_its_start() -> None:
    looks = (106.0, _status(0, start=2.0), 0), (120.0, _status(0, start=2.0, work=9.0, data=5.0), 0)
    assert _split(*looks) == {START: 6.0, WORK: 9.0, DATA: 5.0}


def test_without_steps_a_failed_attempt_is_lost_but_for_its_start() -> None:
    first, second = _status(0, start=2.0, work=8.0), _status(1, start=3.0, work=4.0)
    assert _split((110.0, first, 0), (120.0, second, 0)) == {
        START: 2.0,
        LOST: 8.0 + 3.0 + 3.0,
        WORK: 4.0,
    }


def test_work_that_the_next_attempt_does_not_repeat_is_not_lost() -> None:
    looks: list[Any] = [(105.0, _status(0, start=5.0), 0)]
    looks += [
        (105.0 + second, _status(0, start=5.0, work=second), 10 * second) for second in range(1, 31)
    ]
    looks += [(140.0, _status(1, start=2.0), 0), (150.0, _status(1, start=4.0, work=8.0), 0)]
    assert _split(*looks) == {START: 5.0, LOST: 30.0 + 3.0 + 4.0, WORK: 8.0}, "it may begin again"
    looks += [(151.0, _status(1, start=4.0, work=9.0), 205)]
    assert _split(*looks) == {START: 5.0, WORK: 20.0 + 9.0, LOST: 10.0 + 3.0 + 4.0}
    looks += [(160.0, _status(2, start=5.0), 0), (162.0, _status(2, start=5.0, work=2.0), 3)]
    assert _split(*looks) == {
        START: 5.0,
        WORK: 20.0 + 2.0,
        LOST: 10.0 + 3.0 + 4.0 + 9.0 + 4.0 + 5.0,
    }, "206 is not in a checkpoint"


def test_two_failures_in_a_row_lose_the_work_between_them() -> None:
    looks = [
        (110.0, _status(0, work=10.0), 7), (113.0, _status(1, start=2.0), 0), (120.0, _status(2, start=2.0), 0),
        (125.0, _status(2, start=2.0, work=5.0), 9),
    ]  # fmt: skip
    assert _split(*looks) == {WORK: 15.0, LOST: 10.0}


def test_rows_of_a_stream_that_are_done_are_not_lost() -> None:
    looks = [
        (110.0, _status(0, start=1.0, work=4.0, data=5.0, rows_done=3), 0), (116.0, _status(0, start=1.0, work=10.0, data=5.0, rows_done=3), 0),
        (120.0, _status(1, start=2.0, rows_done=0), 0), (121.0, _status(1, start=2.0, work=1.0, rows_done=1), 0),
        (122.0, _status(2, rows_done=0, work=0.5), 0),
    ]  # fmt: skip
    assert _split(*looks) == {START: 1.0, WORK: 5.5, DATA: 5.0, LOST: 6.0 + 2.0 + 2.0 + 0.5}


def test_time_split_stays_exact_over_thousands_of_observations() -> None:
    split = TimeSplit(0.0)
    for second in range(1, 5000):
        split.look(float(second), _status(0, work=float(second)), 1, second)
    split.look(5000.0, _status(1, work=1.0), 4001, 4002)
    assert split.time_s[WORK] == pytest.approx(4001.0, rel=0.01) and sum(
        split.time_s.values()
    ) == pytest.approx(5000.0)


@pytest.mark.parametrize(
    ("time_s", "text"),
    [
        ({}, ""),
        ({WORK: float("inf"), DATA: 1.0}, ""),
        ({WORK: float("nan")}, ""),
        ({WORK: 1.0, DATA: -1.0}, "useful work 100%"),
        ({WORK: 0.001}, "useful work 100%"),
        (
            {WORK: 1.0, DATA: 1.0, PEERS: 1.0},
            "useful work 34%, waiting for data 33%, waiting for peers 33%",
        ),
        ({WORK: 199.0, LOST: 1.0}, "useful work 100%"),
        ({START: 1.0, EXPORT: 3.0, READ: 4.0}, "reading rows 50%, start 13%, export 37%"),
    ],
)
def test_percentages_add_up_to_a_hundred(time_s: dict[str, float], text: str) -> None:
    assert described(time_s) == text and sum(percentages(time_s).values()) == (100 if text else 0)


def test_each_use_has_a_word() -> None:
    assert set(WORDS) == set(USES) == set(added([{}]))
