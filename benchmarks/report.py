"""Results of a benchmark: a table on the console, JSON, and a chart."""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
from dataclasses import asdict, dataclass

# If the ratios of the rounds differ by more than this factor, their median says little.
SPREAD = 2.0


@dataclass(frozen=True)
class Figure:
    """One line of a benchmark: measured values and their limits, by round.

    Args:
        name: Name of the measured quantity.
        unit: Unit of `values` and `limits`: "rows/s", "s" or "MB".
        values: One value per round.
        limits: Best possible value on the same machine, one per round.
        limit: Description of the limit.
        target: Target ratio of value to limit: a minimum, or a maximum if less is better. None for
            no target.
        too_short: A time was too short for a meaningful ratio.
    """

    name: str
    unit: str
    values: list[float]
    limits: list[float]
    limit: str
    target: float | None
    too_short: bool = False

    @property
    def less_is_better(self) -> bool:
        """Test if smaller values are better."""
        return self.unit != "rows/s"

    @property
    def ratios(self) -> list[float]:
        """Ratios of value and limit, one per round."""
        return [value / limit for value, limit in zip(self.values, self.limits)]

    @property
    def ratio(self) -> float:
        """Median of the ratios of the rounds."""
        return statistics.median(self.ratios)

    @property
    def is_decided(self) -> bool:
        """Test if the ratio is meaningful: the times are long enough, and the rounds agree."""
        return not self.too_short and 0 < max(self.ratios) <= SPREAD * min(self.ratios)

    @property
    def verdict(self) -> str:
        """Verdict on the target: "yes", "NO" or "undecided"; empty without a target."""
        if self.target is None:
            return ""
        if not self.is_decided:
            return "undecided"
        holds = self.ratio <= self.target if self.less_is_better else self.ratio >= self.target
        return "yes" if holds else "NO"

    def row(self) -> list[str]:
        """Return the cells of its line in the table."""
        sign = "<=" if self.less_is_better else ">="
        return [
            self.name,
            f"{_short(statistics.median(self.values))} {self.unit}",
            f"{_short(statistics.median(self.limits))}, {self.limit}",
            f"{self.ratio:.2f} ({min(self.ratios):.2f} to {max(self.ratios):.2f})",
            "" if self.target is None else f"{sign} {self.target:g}",
            self.verdict,
        ]


HEADS = ["", "median", "limit", "ratio (spread)", "target", "holds"]


def table(figures: list[Figure]) -> str:
    """Return the figures as lines of text."""
    return lined_up([HEADS, *(figure.row() for figure in figures)])


def lined_up(rows: list[list[str]]) -> str:
    """Return rows of cells as lines with aligned columns."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
    )


def draw(figures: list[Figure], title: str, chart: pathlib.Path) -> None:
    """Draw a chart of the ratios, their spread, and the targets."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    colors = {"NO": "tab:red", "undecided": "tab:gray"}
    figure, axes = pyplot.subplots(figsize=(8, 1 + 0.45 * len(figures)))
    for place, each in enumerate(figures):
        spread = [[each.ratio - min(each.ratios)], [max(each.ratios) - each.ratio]]
        axes.barh(
            place,
            each.ratio,
            xerr=spread,
            color=colors.get(each.verdict, "tab:blue"),
            ecolor="black",
            height=0.6,
        )
        if each.target is not None:
            axes.plot([each.target] * 2, [place - 0.4, place + 0.4], color="black", linestyle="--")
    axes.set_yticks(range(len(figures)), [each.name for each in figures])
    axes.invert_yaxis()
    axes.set_xlabel("ratio to the limit; dashed: target; gray: undecided")
    axes.set_title(title)
    figure.tight_layout()
    figure.savefig(chart)
    pyplot.close(figure)


def report(name: str, title: str, figures: list[Figure], folder: pathlib.Path) -> None:
    """Print the figures, and write `name`.json and `name`.png into the folder."""
    print(f"\n{title}\n{table(figures)}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    saved = {
        "title": title,
        "figures": [
            {**asdict(each), "ratio": each.ratio, "verdict": each.verdict} for each in figures
        ],
    }
    (folder / f"{name}.json").write_text(json.dumps(saved, indent=1))
    draw(figures, title, folder / f"{name}.png")


def parser(rounds: int = 5) -> argparse.ArgumentParser:
    """Return a parser of `rounds` and of the `folder` for results."""
    known = argparse.ArgumentParser()
    known.add_argument("--rounds", type=int, default=rounds)
    known.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/benchmarks"))
    return known


def arguments(rounds: int = 5) -> argparse.Namespace:
    """Read `rounds` and the `folder` for results from the command line."""
    return parser(rounds).parse_args()


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
