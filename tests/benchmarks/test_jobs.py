from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import pytest

SMALL, LARGE = 100, 1100


class Runs:
    """A job that takes 1 s to start, and for its rows the seconds that are given, the last ones
    again and again.
    """

    def __init__(self, *seconds: float) -> None:
        self.seconds = list(seconds)
        self.sizes = []

    def __call__(self, rows: Any) -> Any:
        self.sizes.append(rows)
        if rows == SMALL:
            return 1.0
        return 1.0 + (self.seconds.pop(0) if len(self.seconds) > 1 else self.seconds[0])


@pytest.fixture
def jobs(benchmark_module: Callable[[str], Any]) -> Any:
    return benchmark_module("jobs")


def test_a_net_time_is_that_of_the_rows_beyond_the_small_size(jobs: Any) -> None:
    net = jobs.measure({"job": jobs.Job(Runs(4.0, 5.0), SMALL, LARGE)}, 2)["job"]
    assert (net.rows, net.seconds, net.rates, net.too_short) == (
        1000,
        [4.0, 5.0],
        [250.0, 200.0],
        False,
    )


def test_jobs_take_turns_and_share_the_start_up_of_one_run(jobs: Any) -> None:
    run = Runs(4.0)
    jobs.measure({"half": jobs.Job(run, SMALL, 600), "all": jobs.Job(run, SMALL, LARGE)}, 2)
    assert run.sizes == [SMALL] + [SMALL, 600, LARGE] * 2  # the first lets the JVM compile


@pytest.mark.parametrize("again", [-0.5, 0.0, 1.9])
def test_a_round_with_too_short_a_time_runs_again(
    jobs: Any, again: float, capsys: pytest.CaptureFixture[str]
) -> None:
    job, beside = Runs(4.0, again, 5.0), Runs(3.0)
    nets = jobs.measure(
        {"job": jobs.Job(job, SMALL, LARGE), "beside": jobs.Job(beside, SMALL, LARGE)}, 2
    )
    assert nets["job"].seconds == [4.0, 5.0] and not nets["job"].too_short
    assert len(beside.sizes) == len(job.sizes) == 1 + 2 * 3  # both, so that they stay neighbours
    assert f"round 2 runs again: job took {again:.2f} s beyond start-up" in capsys.readouterr().out


def test_time_that_stays_too_short_is_marked_after_the_last_round(jobs: Any) -> None:
    job = Runs(0.1)
    assert jobs.measure({"job": jobs.Job(job, SMALL, LARGE)}, 3)["job"].too_short
    assert len(job.sizes) == 1 + 2 * (3 + jobs.ROUNDS_AGAIN)


def test_smaller_scale_is_not_repeated_and_stays_too_short(jobs: Any) -> None:
    job = Runs(0.1)
    net = jobs.measure({"job": jobs.Job(job, 10 * SMALL, 10 * LARGE)}, 1, 0.1)["job"]
    assert net.too_short and job.sizes == [SMALL, LARGE]


def given(only: str = "") -> argparse.Namespace:
    return argparse.Namespace(rounds=1, scale=1.0, only=only)


def test_a_comparison_is_with_another_job_or_with_a_rate(jobs: Any) -> None:
    lines = [
        jobs.Comparison("to job", "a", "b", "b", 1.0),
        jobs.Comparison("to rate", "a", 500.0, "asked for", 1.0),
    ]
    made = {
        name: jobs.Job(Runs(seconds), SMALL, LARGE)
        for name, seconds in {"a": 4.0, "b": 8.0}.items()
    }
    figures, nets = jobs.compare(made, lines, given())
    assert [(each.name, each.ratio, each.verdict) for each in figures] == [
        ("to job", 2.0, "yes"),
        ("to rate", 0.5, "NO"),
    ]
    assert set(nets) == {"a", "b"}


def test_a_figure_is_undecided_where_its_limit_is_too_short(jobs: Any) -> None:
    made = {"a": jobs.Job(Runs(4.0), SMALL, LARGE), "b": jobs.Job(Runs(0.1), SMALL, LARGE)}
    ((figure,), _) = jobs.compare(made, [jobs.Comparison("line", "a", "b", "b", 0.001)], given())
    assert figure.verdict == "undecided"


def test_only_the_jobs_that_the_chosen_lines_need_run(jobs: Any) -> None:
    lines = [
        jobs.Comparison("first", "a", 1.0, "asked for", 1.0),
        jobs.Comparison("second", "b", 1.0, "asked for", 1.0),
    ]
    left, right = Runs(4.0), Runs(4.0)
    made = {"a": jobs.Job(left, SMALL, LARGE), "b": jobs.Job(right, SMALL, LARGE)}
    figures, _ = jobs.compare(made, lines, given("seco"))
    assert [each.name for each in figures] == ["second"] and not left.sizes
    with pytest.raises(
        SystemExit, match="no line has 'third' in its name; the lines are first, second"
    ):
        jobs.compare(made, lines, given("third"))


def test_processor_time_below_a_tick_of_the_clock_counts_as_one(jobs: Any) -> None:
    net = jobs.Net(
        1000, [1.0, 1.0, 1.0], [{"driver": 0.0}, {"driver": -0.02}, {"driver": 2.0}], True
    )
    assert net.processors_per_million == [10.0, 10.0, 2000.0]
