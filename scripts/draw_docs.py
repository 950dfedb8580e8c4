"""Draw the pictures of README and docs: `make pictures`. A test fails when script, figures and
pictures differ.

Each picture exists for light and for dark pages. The figures of the chart of rates are the table
"Results" of benchmarks/README.md. The curves of learning come from a run of
`examples/online_training/job.py --record`.
"""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Iterator
from html import escape

ROOT = pathlib.Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "_static"
FIGURES = ROOT / "benchmarks" / "README.md"
CURVES = ROOT / "examples" / "online_training" / "auc.csv"
COLOURS = {
    "light": {
        "ink": "#1f2328",
        "soft": "#59636e",
        "line": "#8c959f",
        "flink": "#ddf4ff",
        "tf": "#fff1e5",
        "bar": "#0969da",
        "peer": "#afb8c1",
    },
    "dark": {
        "ink": "#e6edf3",
        "soft": "#9198a1",
        "line": "#6e7681",
        "flink": "#0c2d48",
        "tf": "#4a2207",
        "bar": "#4493f8",
        "peer": "#57606a",
    },
}
FONT = 'font-family="-apple-system,Segoe UI,Helvetica,Arial,sans-serif"'


def results() -> list[tuple[str, str, float]]:
    """Return the rows of the table: what was measured, beside what, and the median ratio."""
    part = FIGURES.read_text(encoding="utf-8").split("## Results\n", 1)[1].split("\n## ", 1)[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in part.splitlines()
        if line.startswith("|")
    ]
    return [(what, peer, float(ratio)) for what, peer, ratio in rows[2:]]


def pictures() -> Iterator[tuple[pathlib.Path, str]]:
    """Return path and text of each picture."""
    for mode, colours in COLOURS.items():
        yield FOLDER / f"path-{mode}.svg", _path(colours)
        yield FOLDER / f"speed-{mode}.svg", _chart(colours)
        yield FOLDER / f"learning-{mode}.svg", _curves(colours)


def _svg(width: int, height: int, title: str, parts: list[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img" {FONT}>\n<title>{escape(title)}</title>\n{body}\n</svg>\n'
    )


def _text(
    x: float,
    y: float,
    text: str,
    fill: str,
    size: int = 14,
    anchor: str = "middle",
    weight: str = "normal",
) -> str:
    font = f'font-size="{size}" font-weight="{weight}" text-anchor="{anchor}" fill="{fill}"'
    return f'<text x="{x:g}" y="{y:g}" {font}>{escape(text)}</text>'


def _box(x: float, y: float, width: float, height: float, fill: str, line: str) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="{fill}"'
        f' stroke="{line}"/>'
    )


def _arrow(x1: float, y1: float, x2: float, y2: float, line: str) -> str:
    return (
        f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{line}" stroke-width="1.5"'
        ' marker-end="url(#end)"/>'
    )


def _path(colours: dict[str, str]) -> str:
    """Draw a table, the processes of a group with the script in them, and the table of results."""
    ink, soft, line = colours["ink"], colours["soft"], colours["line"]
    parts = [
        (
            '<defs><marker id="end" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7"'
            ' markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z"'
            f' fill="{line}"/></marker></defs>'
        ),
        _box(10, 90, 180, 80, colours["flink"], line),
        _text(100, 124, "Flink table", ink, 16, weight="bold"),
        _text(100, 148, "SQL, pandas, Kafka, files", soft, 13),
        _box(530, 90, 180, 80, colours["flink"], line),
        _text(620, 124, "Flink table", ink, 16, weight="bold"),
        _text(620, 148, "predictions, model, rows", soft, 13),
        _text(360, 22, "TensorFlow processes", ink, 16, weight="bold"),
        _text(205, 62, "rows as columns", soft, 13),
        _text(515, 62, "rows it writes", soft, 13),
        _text(360, 252, "TF_CONFIG is set: workers in step, or with parameter servers", soft, 13),
    ]
    for number, y in enumerate((40, 106, 172)):
        parts += [
            _box(280, y, 160, 52, colours["tf"], line),
            _text(360, y + 22, f"worker {number}", ink, 14, weight="bold"),
            _text(360, y + 41, "main(task_config)", soft, 13),
            _arrow(192, 130, 276, y + 26, line),
            _arrow(442, y + 26, 526, 130, line),
        ]
    return _svg(
        720, 266, "Rows of a Flink table go to TensorFlow processes and come back as a table", parts
    )


def _chart(colours: dict[str, str]) -> str:
    """Draw a bar for each ratio, and a line where the peer stands."""
    ink, soft = colours["ink"], colours["soft"]
    rows = results()
    left, right, step, top = 330, 660, 58, 40
    scale = (right - left) / max(ratio for *_, ratio in rows)
    one = left + scale
    parts = [_text(one, 22, "peer = 1", soft, 13)]
    for number, (what, peer, ratio) in enumerate(rows):
        y, plain = top + number * step, what.partition(", ")[2]  # without the name of the benchmark
        parts += [
            _text(left - 12, y + 17, plain.replace("`", ""), ink, 14, "end", "bold"),
            _text(left - 12, y + 36, "beside " + peer.replace("`", ""), soft, 12, "end"),
            (
                f'<rect x="{left}" y="{y + 6}" width="{ratio * scale:.1f}" height="18" rx="3"'
                f' fill="{colours["bar"]}"/>'
            ),
            _text(left + ratio * scale + 8, y + 20, f"{ratio:g}", ink, 14, "start", "bold"),
            (
                f'<rect x="{left}" y="{y + 27}" width="{scale:.1f}" height="8" rx="3"'
                f' fill="{colours["peer"]}"/>'
            ),
        ]
    bottom = top + len(rows) * step
    dashes = f'stroke="{colours["line"]}" stroke-dasharray="4 4"'
    parts.append(f'<line x1="{one:.1f}" y1="28" x2="{one:.1f}" y2="{bottom}" {dashes}/>')
    said = "Rows per second as multiples of the peer's, in the same run on two cores; medians"
    parts.append(_text(360, bottom + 22, said, soft, 13))
    return _svg(
        720, bottom + 34, "Rates of akdl as multiples of its peers on the same machine", parts
    )


def _curves(colours: dict[str, str]) -> str:
    """Draw the AUC of a model that learns and of one that was trained once, over the seconds of a
    run.
    """
    ink, soft, line = colours["ink"], colours["soft"], colours["line"]
    with CURVES.open(newline="", encoding="utf-8") as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    left, right, top, bottom = 60, 570, 20, 240
    wide, most = (right - left) / rows[-1]["seconds"], bottom - top
    parts = []
    for level in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = bottom - most * level
        dashes = ' stroke-dasharray="4 4"' if level else ""
        parts += [
            (
                f'<line x1="{left}" y1="{y:g}" x2="{right}" y2="{y:g}" stroke="{line}"'
                f' stroke-width="0.7"{dashes}/>'
            ),
            _text(left - 10, y + 5, f"{level:g}", soft, 13, "end"),
        ]
    seconds = range(0, int(rows[-1]["seconds"]) + 1, 30)
    parts += [
        _text(left + wide * second, bottom + 20, f"{second} s", soft, 13) for second in seconds
    ]
    for name, label, colour in (
        ("newest", "learns from each click", "bar"),
        ("once", "trained once", "peer"),
    ):
        points = " ".join(
            f"{left + wide * row['seconds']:.1f},{bottom - most * row[name]:.1f}" for row in rows
        )
        parts += [
            (
                f'<polyline points="{points}" fill="none" stroke="{colours[colour]}"'
                ' stroke-width="3"/>'
            ),
            _text(right + 8, bottom - most * rows[-1][name] + 5, label, ink, 14, "start", "bold"),
        ]
    parts.append(
        _text(
            (left + right) / 2,
            bottom + 44,
            "AUC of the last 500 clicks, while the taste of visitors turns",
            soft,
            13,
        )
    )
    return _svg(
        760, bottom + 56, "A model that learns from a stream, and one that was trained once", parts
    )


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, text in pictures():
        path.write_text(text, encoding="utf-8")
