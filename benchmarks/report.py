"""What a benchmark found: a table on the console, JSON, and a chart."""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figure:
    """One line of a benchmark: what was measured, round by round, beside its limit in the same rounds.

    Args:
        name: What was measured.
        unit: Of `values` and `limits`: "rows/s", "s" or "MB".
        values: One per round.
        limits: What the same machine does at best, one per round.
        limit: What the limit is.
        target: The ratio of value to limit that is asked for: at least, or at most where less is better. None: any.
    """

    name: str
    unit: str
    values: list[float]
    limits: list[float]
    limit: str
    target: float | None

    @property
    def less_is_better(self) -> bool:
        """Whether a good value is a small one."""
        return self.unit != "rows/s"

    @property
    def ratios(self) -> list[float]:
        """Of value and limit, one per round."""
        return [value / limit for value, limit in zip(self.values, self.limits)]

    @property
    def ratio(self) -> float:
        """Median of the ratios of the rounds."""
        return statistics.median(self.ratios)

    @property
    def holds(self) -> bool:
        """Whether the target holds."""
        if self.target is None:
            return True
        return self.ratio <= self.target if self.less_is_better else self.ratio >= self.target

    def row(self) -> list[str]:
        """Return the cells of its line in the table."""
        sign = "<=" if self.less_is_better else ">="
        return [
            self.name,
            f"{_short(statistics.median(self.values))} {self.unit}",
            f"{_short(statistics.median(self.limits))}, {self.limit}",
            f"{self.ratio:.2f} ({min(self.ratios):.2f} to {max(self.ratios):.2f})",
            "" if self.target is None else f"{sign} {self.target:g}",
            "" if self.target is None else "yes" if self.holds else "NO",
        ]


HEADS = ["", "median", "limit", "ratio (spread)", "target", "holds"]


def table(figures: list[Figure]) -> str:
    """Return the figures as lines of text."""
    rows = [HEADS, *(figure.row() for figure in figures)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEADS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def draw(figures: list[Figure], title: str, chart: pathlib.Path) -> None:
    """Draw the ratios as bars, their spread, and the targets."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 1 + 0.45 * len(figures)))
    for place, each in enumerate(figures):
        spread = [[each.ratio - min(each.ratios)], [max(each.ratios) - each.ratio]]
        axes.barh(place, each.ratio, xerr=spread, color="tab:blue" if each.holds else "tab:red", ecolor="black", height=0.6)
        if each.target is not None:
            axes.plot([each.target] * 2, [place - 0.4, place + 0.4], color="black", linestyle="--")
    axes.set_yticks(range(len(figures)), [each.name for each in figures])
    axes.invert_yaxis()
    axes.set_xlabel("ratio to the limit; dashed: target")
    axes.set_title(title)
    figure.tight_layout()
    figure.savefig(chart)


def report(name: str, title: str, figures: list[Figure], folder: pathlib.Path) -> None:
    """Print the figures, and write `name`.json and `name`.png into the folder."""
    print(f"\n{title}\n{table(figures)}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    saved = {"title": title, "figures": [{**asdict(each), "ratio": each.ratio, "holds": each.holds} for each in figures]}
    (folder / f"{name}.json").write_text(json.dumps(saved, indent=1))
    draw(figures, title, folder / f"{name}.png")


def arguments(rounds: int = 5) -> argparse.Namespace:
    """Return `rounds` and the `folder` for results from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/benchmarks"))
    return parser.parse_args()


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
