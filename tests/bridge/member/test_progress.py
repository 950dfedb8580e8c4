"""When a script counts as idle."""

from __future__ import annotations

import pytest

from bridge.member.progress import BUSY, ProgressWatch


def test_a_script_is_idle_from_its_start_on() -> None:
    assert ProgressWatch(100.0).idle_s(103.0) == 3.0


@pytest.mark.parametrize(
    ("rows", "cpu_s", "idle_s"),
    [
        (0, 0.0, 12.0),
        (1, 0.0, 2.0),  # it has taken or written rows
        (0, 10.0 * BUSY + 0.01, 2.0),  # it computes
        (0, 10.0 * BUSY - 0.01, 12.0),  # as a process does that waits for others
    ],
)
def test_what_counts_as_progress(rows: int, cpu_s: float, idle_s: float) -> None:
    progress = ProgressWatch(100.0)
    progress.look(110.0, rows, cpu_s)
    assert progress.idle_s(112.0) == idle_s


def test_each_look_compares_with_the_one_before() -> None:
    progress = ProgressWatch(0.0)
    progress.look(10.0, rows=5, cpu_s=3.0)
    progress.look(20.0, rows=5, cpu_s=3.0 + 9.0 * BUSY)  # less than BUSY of these 10 s
    assert progress.idle_s(20.0) == 10.0
    progress.look(21.0, rows=5, cpu_s=3.0 + 10.2 * BUSY)  # more than BUSY of this second
    assert progress.idle_s(21.0) == 0.0


def test_the_end_is_progress_once() -> None:
    progress = ProgressWatch(0.0)
    progress.end(10.0)
    progress.end(15.0)
    assert progress.idle_s(18.0) == 8.0
