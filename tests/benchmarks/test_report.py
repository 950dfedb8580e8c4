from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def figure(benchmark_module: Callable[[str], Any]) -> Callable[..., Any]:
    report = benchmark_module("report")

    def make(
        values: Any,
        target: float = 1.0,
        unit: str = "rows/s",
        limit: float = 1.0,
        too_short: bool = False,
    ) -> Any:
        return report.Figure(
            "a job", unit, values, [limit] * len(values), "its limit", target, too_short
        )

    return make


@pytest.mark.parametrize(
    ("values", "target", "unit", "verdict"),
    [
        ([1.2, 1.0, 1.4], 1.2, "rows/s", "yes"),
        ([1.2, 1.0, 1.4], 1.3, "rows/s", "NO"),
        ([1.2, 1.0, 1.4], 1.2, "s", "yes"),
        ([1.2, 1.0, 1.4], 1.1, "MB", "NO"),
        ([1.2, 1.0, 1.4], None, "rows/s", ""),
        ([1.0, 2.0, 1.5], 1.0, "rows/s", "yes"),
        ([1.0, 2.1, 1.5], 1.0, "rows/s", "undecided"),
        ([3.0, 7.0, 5.0], 1.0, "rows/s", "undecided"),
        ([-1.0, -1.1, -1.2], 1.0, "rows/s", "undecided"),
    ],
)
def test_a_target_holds_where_the_median_meets_it_and_the_rounds_agree(
    figure: Callable[..., Any], values: list[float], target: float | None, unit: str, verdict: str
) -> None:
    assert figure(values, target, unit).verdict == verdict


def test_too_short_a_time_is_undecided(figure: Callable[..., Any]) -> None:
    assert figure([5.0], too_short=True).verdict == "undecided"


def test_a_report_is_a_table_figures_and_a_chart(
    benchmark_module: Callable[[str], Any],
    figure: Callable[..., Any],
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    benchmark_module("report").report(
        "some", "Some jobs", [figure([2_000.0, 3_000.0], limit=1_000.0), figure([0.5])], tmp_path
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [
        "Some jobs",
        "       median        limit             ratio (spread)       target  holds",
        "a job  2,500 rows/s  1,000, its limit  2.50 (2.00 to 3.00)  >= 1    yes",
        "a job  0.5 rows/s    1, its limit      0.50 (0.50 to 0.50)  >= 1    NO",
    ]
    saved = json.loads((tmp_path / "some.json").read_text())
    assert [(each["ratio"], each["verdict"]) for each in saved["figures"]] == [
        (2.5, "yes"),
        (0.5, "NO"),
    ]
    assert (tmp_path / "some.png").read_bytes().startswith(b"\x89PNG")
