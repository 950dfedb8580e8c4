"""When a script counts as idle."""

from __future__ import annotations

import pytest

from bridge.member.progress import BUSY, MOST_S, ProgressWatch


@pytest.mark.parametrize(
    ("rows", "cpu_s", "idle_s"),
    [
        (0, 0.0, 4.0),
        (1, 0.0, 0.0),  # it has taken or written rows
        (0, 4.0 * BUSY + 0.01, 0.0),  # it computes
        (0, 4.0 * BUSY - 0.01, 4.0),  # as a process does that waits for others
    ],
)
def test_what_counts_as_progress(rows: int, cpu_s: float, idle_s: float) -> None:
    progress = ProgressWatch(100.0)
    progress.look(104.0, rows, cpu_s)
    assert progress.idle_s == idle_s


def test_each_look_compares_with_the_one_before() -> None:
    progress = ProgressWatch(0.0)
    progress.look(1.0, rows=5, cpu_s=3.0)
    for second in range(2, 22):
        progress.look(second, rows=5, cpu_s=3.0 + (second - 1) * 0.9 * BUSY)  # less than BUSY of each second
    assert progress.idle_s == 20.0
    progress.look(22.0, rows=5, cpu_s=3.0 + 20 * 0.9 * BUSY + 1.1 * BUSY)
    assert progress.idle_s == 0.0


def test_the_end_is_progress_once() -> None:
    progress = ProgressWatch(0.0)
    progress.look(4.0, rows=0, cpu_s=0.0)
    progress.end()
    assert progress.idle_s == 0.0
    progress.look(7.0, rows=0, cpu_s=0.0)
    progress.end()
    assert progress.idle_s == 3.0


def test_a_host_that_was_asleep_does_not_end_its_jobs_as_it_wakes_up() -> None:
    progress = ProgressWatch(0.0)
    progress.look(3600.0, rows=0, cpu_s=0.0)
    assert progress.idle_s == MOST_S
