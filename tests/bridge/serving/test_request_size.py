"""Sizes of requests to models of different speed, which a formula for the time of a request stands
for.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bridge.serving.prediction import RequestSize


def sizes(
    least: int, seconds: Callable[[int], float], most: int = 1 << 16, answers: int = 60
) -> list[int]:
    """Rows of each request, where three of them are under way, and chunks have `most` rows."""
    size, sent = RequestSize(least), [min(least, most)] * 3
    for answered in range(answers):
        size.note(sent[answered], seconds(sent[answered]))
        sent.append(min(size.rows, most))
    return sent


@pytest.mark.parametrize(
    ("row_s", "fewest", "most"), [(1.0, 1, 3), (0.3, 2, 4), (0.005, 150, 250), (20.0, 1, 3)]
)
def test_a_request_takes_about_a_second_or_a_few_rows(row_s: float, fewest: int, most: int) -> None:
    found = sizes(1, lambda rows: rows * row_s)
    assert fewest <= found[-1] <= max(found) <= most


def test_fast_model_gets_whole_chunks_after_few_requests() -> None:
    found = sizes(1, lambda rows: 0.001 + rows * 1e-6)
    assert found[30:] == [1 << 16] * len(found[30:])
    assert max(found[:3]) == 1, "nothing is known about the first requests"


def test_calls_of_ten_seconds_are_not_made_for_single_rows() -> None:
    """For example an accelerator that takes as long for one row as for a thousand."""
    assert sizes(1, lambda rows: 10.0, most=1000)[-1] == 1000


def test_slow_first_call_is_forgotten() -> None:
    calls = iter([30.0, *[0.001] * 100])
    assert sizes(256, lambda rows: next(calls))[-1] == 1 << 16


def test_rows_that_become_slow_make_requests_smaller() -> None:
    size = RequestSize(1)
    for _ in range(30):
        size.note(min(size.rows, 4000), 1e-6 * min(size.rows, 4000))
    assert size.rows > 10_000
    for _ in range(20):
        size.note(min(size.rows, 4000), 1.0 * min(size.rows, 4000))
    assert size.rows <= 3


def test_answers_that_come_in_bursts_count_together() -> None:
    """A model that computes three requests side by side needs one second for a row of each."""
    bursts = iter(range(1000))
    assert max(sizes(1, lambda rows: 0.0 if next(bursts) % 3 else 1.0 * rows)) <= 12


def test_requests_without_files_to_continue_from_have_whole_batches() -> None:
    assert set(sizes(64, lambda rows: 1.0 * rows)) <= {64, 128, 192}


def test_end_of_a_chunk_does_not_make_requests_smaller() -> None:
    size = RequestSize(1)
    for _ in range(20):
        size.note(size.rows, 1e-6 * size.rows)
    rows = size.rows
    size.note(3, 1e-5)
    assert size.rows > 0.99 * rows
