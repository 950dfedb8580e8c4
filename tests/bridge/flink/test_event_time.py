"""Watermarks that wait for a script: tables of what happens, and of what the output is told."""

from __future__ import annotations

import random
from typing import Any

import pytest

from bridge.flink.event_time import (
    FIRST_TIME,
    LAST_TIME,
    EventTime,
    Watermarks,
    late_counter,
    late_rows,
    time_bytes,
    time_of,
)

IDLE = None

# What happens: (subtask, watermark) or (subtask, IDLE) of two subtasks, "row" comes, or the script
# has finished so many rows. What the output is told: a watermark, or (watermark, "idle").
TABLE: dict[str, tuple[list[Any], list[Any]]] = {
    "the minimum of both": ([(0, 5), (1, 3), (0, 9), (1, 7)], [3, 7]),
    "none before all have told theirs": ([(0, 5), (0, 9)], []),
    "it waits for the rows before it": (["row", "row", (0, 5), (1, 5), 1, 2], [5]),
    "not for those behind it": (["row", (0, 5), (1, 5), "row", 1], [5]),
    "the latest of several that are due": (
        ["row", (0, 1), (1, 1), "row", (0, 2), (1, 2), "row", (0, 3), (1, 3), 2, 3],
        [2, 3],
    ),
    "one that tells nothing new": ([(0, 5), (1, 5), (1, 5), (0, 5)], [5]),
    "an idle one is left out": ([(0, 5), (1, 3), (1, IDLE)], [3, 5]),
    "an idle one that told nothing": ([(1, IDLE), (0, 5)], [5]),
    "an idle one that goes on": ([(0, 5), (1, IDLE), (1, 3), (0, 9), (1, 6)], [5, 6]),
    "all are idle": ([(0, 5), (1, 3), (0, IDLE), (1, IDLE)], [3, (5, "idle")]),
    "idle only behind the rows before": (
        ["row", (0, 5), (1, 5), (0, IDLE), (1, IDLE), 1],
        [(5, "idle")],
    ),
    "all were idle": (
        [(0, 5), (1, 5), (0, IDLE), (1, IDLE), (1, 5), (0, 7), (1, 8)],
        [5, (5, "idle"), 5, 7],
    ),
    "it wakes before the rows that it waits for": (
        [(0, 5), (1, 5), (0, IDLE), (1, IDLE), "row", (0, 7), (1, 8), 1],
        [5, (5, "idle"), 5, 7],
    ),
    "it is not idle behind rows when it woke before": (
        ["row", (0, 5), (1, 5), (0, IDLE), (1, IDLE), (0, 7), 1],
        [FIRST_TIME, 7],
    ),
    "one that has ended is left out": ([(0, LAST_TIME), (1, 3)], [3]),
    "the rest of one that has ended": ([(0, LAST_TIME), (1, 3), (1, IDLE)], [3, (3, "idle")]),
    "the end of all is that of the input": (
        ["row", (0, 3), (1, 3), (0, LAST_TIME), (1, LAST_TIME), 1],
        [3],
    ),
}


@pytest.mark.parametrize(("happens", "told"), TABLE.values(), ids=TABLE)
def test_watermarks_of_the_output_follow_inputs_and_finished_rows(
    happens: list[Any], told: list[Any]
) -> None:
    watermarks, rows, done, found = Watermarks(), 0, 0, []
    for each in happens:
        if each == "row":
            rows += 1
        elif isinstance(each, int):
            done = each
        else:
            watermarks.add(each[0], 2, each[1], rows)
        now = watermarks.pass_rows(done)
        if now is not None:
            found.append((now.time, "idle") if now.is_idle else now.time)
    assert found == told


def test_inputs_that_ended_before_a_checkpoint_do_not_hold_back_watermarks() -> None:
    watermarks = Watermarks({1: 3, 2: 3})
    watermarks.add(0, 3, 5, 0)
    assert watermarks.pass_rows(0) == EventTime(5)


def test_restored_inputs_of_another_parallelism_are_ignored() -> None:
    watermarks = Watermarks({1: 3})
    watermarks.add(0, 2, 5, 0)
    assert watermarks.pass_rows(0) is None
    watermarks.add(1, 2, 4, 0)
    assert watermarks.pass_rows(0) == EventTime(4)


def test_watermarks_know_the_row_that_they_wait_for() -> None:
    watermarks = Watermarks()
    assert watermarks.waits_for is None
    watermarks.add(0, 1, 5, 3)
    assert watermarks.waits_for == 3
    watermarks.pass_rows(3)
    assert watermarks.waits_for is None


@pytest.mark.parametrize("seed", range(20))
def test_no_row_comes_behind_its_watermark(seed: int) -> None:
    """Rows of three subtasks, each in order of time and none before its watermark; a script that
    writes them, one by one.
    """
    draw, watermarks, of = random.Random(seed), Watermarks(), 3
    times, idle, came = [0] * of, [False] * of, []
    done, reached = 0, -2
    for _ in range(2000):
        subtask = draw.randrange(of)
        what = draw.random()
        if what < 0.4 and not idle[subtask]:
            times[subtask] += draw.randrange(5)
            came.append((times[subtask], subtask))
        elif what < 0.6 and not idle[subtask]:
            watermarks.add(subtask, of, times[subtask] - 1, len(came))
        elif what < 0.63 and sum(idle) < of - 1:
            idle[subtask] = not idle[subtask]
            if not idle[subtask]:  # what it has from now on is not before what others have
                times[subtask] = max(times)
            watermarks.add(subtask, of, None if idle[subtask] else times[subtask] - 1, len(came))
        elif done < len(came):
            assert came[done][0] > reached, "the row is late"
            done += 1
        found = watermarks.pass_rows(done)
        if found is not None:
            assert found.time >= reached or found.is_idle
            reached = max(reached, found.time)
    assert done > 200 and reached > 0


@pytest.mark.parametrize("seed", range(20))
def test_no_member_overtakes_the_rows_of_another(seed: int) -> None:
    """One subtask that is idle now and then, and its rows in turn to three members, whose scripts
    are slow at random.
    """
    draw, members = random.Random(seed), 3
    watermarks = [Watermarks() for _ in range(members)]
    rows: list[list[int]] = [[] for _ in range(members)]
    done, out = [0] * members, [EventTime()] * members
    time, reached, came, was_idle = 0, FIRST_TIME, 0, 0

    def marker(watermark: int | None) -> None:
        for each, own in zip(watermarks, rows):
            each.add(0, 1, watermark, len(own))

    for _ in range(3000):
        what = draw.random()
        if what < 0.3:
            time += draw.randrange(5)
            rows[came % members].append(time)
            came += 1
        elif what < 0.5:
            marker(time - 1)
        elif what < 0.6:
            marker(IDLE)
        else:
            one = draw.randrange(members)
            if done[one] < len(rows[one]):
                assert rows[one][done[one]] > reached, "the row is late"
                done[one] += 1
        for one in range(members):
            out[one] = watermarks[one].pass_rows(done[one]) or out[one]
        was_idle += all(each.is_idle for each in out)
        active = [each.time for each in out if not each.is_idle]
        reached = max(reached, min(active) if active else max(each.time for each in out))
    assert sum(done) > 200 and was_idle and reached > 0


def test_late_rows_reports_only_counters_of_late_rows() -> None:
    own, carried = late_counter("AnOp", "a.py", "t", False), late_counter("AnOp", "a.py", "u", True)
    assert list(late_rows({own: 0, "numRecords": 7, "[1]": 8})) == []
    (first, second) = late_rows({own: 1234, carried: 5})
    assert first.startswith(
        "AnOp (a.py): 1,234 rows arrived behind the watermark of 't', so windows"
    )
    assert "WATERMARK FOR t AS SOURCE_WATERMARK() uses the watermarks of the input" in first
    assert (
        "5 rows arrived behind the watermark of 'u'" in second
        and "the script wrote other times than it read" in second
    )


@pytest.mark.parametrize("time", [FIRST_TIME, -1, 0, 1_700_000_000_000, LAST_TIME])
def test_event_times_are_the_same_after_encoding(time: int) -> None:
    assert time_of(time_bytes(time)) == time and len(time_bytes(time)) == 8
