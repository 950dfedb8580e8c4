"""`akdl report RECORD [PAGE]`: turn the record of a run into one self-contained HTML page."""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from html import escape

from akdl.masking import masked, shown
from akdl.storage.files import FileError, fetch, is_remote, name_of
from akdl.storage.limits import RECORD
from akdl.wire.status_pb2 import MemberStatus
from bridge.member.status import DATA, EXPORT, LOST, PEERS, READ, START, WORK
from operators.progress.record import Record, read_record
from operators.progress.state import TOTAL_STEPS
from operators.progress.time_split import WORDS, added, described, percentages
from operators.tools.advice import advise
from operators.tools.passwords import refuse_password

# Sizes of a drawing in pixels: its width, the height of a chart, the margin for labels, and the
# height of a member's row.
_WIDTH = 860
_HEIGHT = 150
_LEFT = 90
_ROW = 22
_COLORS = {
    WORK: "#3f9c6b",
    READ: "#a8cf6f",
    DATA: "#4a90d9",
    PEERS: "#e8825a",
    START: "#f2b134",
    EXPORT: "#8e6bbf",
    LOST: "#c0392b",
}
_LINES = ("#4a90d9", "#e8825a", "#3f9c6b", "#8e6bbf", "#b8860b", "#5f6b7a")
# A page shows the time of this many members, and names how many it leaves out.
_MOST_MEMBERS = 40
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0"
    " 1em;color:#222;background:#fff}h1{font-size:1.4em}h2{font-size:1.1em;margin-top:2em}svg{width:100%;height:auto}svg"  # noqa: E501
    " text{font:12px system-ui,sans-serif}li{margin:.5em"
    " 0}.evidence{color:#666}.key{display:inline-block;width:.8em;height:.8em;margin:0 .3em 0"
    " 1em}@media(prefers-color-scheme:dark){body{color:#ddd;background:#1b1b1b}svg"
    " text{fill:#ddd}.evidence{color:#aaa}}"
)

_Curve = tuple[str, list[tuple[float, float]]]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="akdl report", description="Make one HTML page of the record of a run."
    )
    parser.add_argument("record", metavar="RECORD", help="a file in a logDir, at any address")
    parser.add_argument(
        "page",
        metavar="PAGE",
        nargs="?",
        help="where the page is written (default: next to the record, or here for a remote one)",
    )
    given = parser.parse_args(arguments)
    remedy = "leave it out, and let the storage take it from its own variables or files"
    refuse_password(parser, "RECORD", given.record, remedy)
    try:
        with tempfile.TemporaryDirectory(prefix="akdl_report_") as folder:
            local = fetch(given.record, folder)
            with open(local, "rb") as record:
                page = page_of(read_record(RECORD.read(record).decode("utf-8")))
    except (OSError, FileError, ValueError) as error:
        sys.stderr.write(
            f"akdl report: cannot read the record {shown(given.record)}:"
            f" {masked(str(error), given.record)}\n"
        )
        return 1
    # A remote record cannot have the page next to it, so that page is written to the current
    # folder.
    record_name = name_of(given.record) if is_remote(given.record) else local
    path = given.page or os.path.splitext(record_name)[0] + ".html"
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        sys.stderr.write(f"cannot write the page {path}: {error.strerror}\n")
        return 1
    print(path)
    return 0


def page_of(record: Record) -> str:
    end = {None: "has not ended", True: "ended early", False: "ended well"}[record.failed]
    rows = [status for status in record.last if status.is_worker]
    facts = (
        f"Started {record.started[:19].replace('T', ' ')} UTC, {end}, {record.total_s:.0f} seconds,"
        f" {record.size} processes, {sum(status.rows_in for status in rows):,} rows in,"
        f" {sum(status.rows_out for status in rows):,} rows out."
    )
    advice = "".join(
        f"<li>{escape(each.text)}<br><span class=evidence>{escape(each.evidence)}</span></li>"
        for each in advise(record)
    )
    parts = [
        (
            "<!doctype html><html lang=en><meta"
            f" charset=utf-8><title>{escape(record.name)}</title><style>{_STYLE}</style>"
        ),
        f"<h1>{escape(record.name)}</h1><p>{escape(facts)}</p><h2>Advice</h2><ul>{advice}</ul>",
        (
            "<h2>Where the time"
            f" went</h2><p>{described(added(status.time_s for status in rows))}</p>{_times(record)}"
        ),
    ]
    for title, curves in _charts(record):
        # A curve of one point or of zeros shows nothing, so a chart without any other curve is left
        # out.
        if any(len(points) > 1 and any(value for _, value in points) for _, points in curves):
            parts.append(f"<h2>{escape(title)}</h2>{_chart(curves, record.total_s)}")
    return "\n".join(parts) + "\n</html>\n"


def _charts(record: Record) -> list[tuple[str, list[_Curve]]]:
    workers = {
        label: samples for label, samples in record.samples.items() if samples[-1][1].is_worker
    }
    names = {
        name
        for samples in record.samples.values()
        for _, status in samples
        for name in status.metrics
    }
    charts = [
        ("Rows in, each second", _speeds(workers, lambda status: status.rows_in)),
        ("Rows out, each second", _speeds(workers, lambda status: status.rows_out)),
    ]
    for name in sorted(names - {TOTAL_STEPS}):
        curves = _curves(record, lambda status, name=name: status.metrics.get(name, math.nan))  # type: ignore[misc]
        charts.append((name, curves))
    memory = _curves(record, lambda status: status.memory_bytes / (1 << 20) or math.nan)
    processors = _speeds(record.samples, lambda status: status.cpu_s)
    return [*charts, ("Memory of a process, in MB", memory), ("Processors in use", processors)]


def _curves(record: Record, value: Callable[[MemberStatus], float]) -> list[_Curve]:
    """A curve for each member. Values that are not finite make no points."""
    return [
        (
            label,
            [(seconds, found) for seconds, each in samples if math.isfinite(found := value(each))],
        )
        for label, samples in record.samples.items()
    ]


def _speeds(
    members: dict[str, list[tuple[float, MemberStatus]]], count: Callable[[MemberStatus], float]
) -> list[_Curve]:
    """Growth of a count each second, over at least five seconds at a time."""
    curves: list[_Curve] = [(label, []) for label in members]
    for (_, points), samples in zip(curves, members.values()):
        before = samples[0]
        for sample in samples[1:]:
            # The counts of a member begin at zero in each attempt.
            if sample[1].attempt != before[1].attempt:
                before = sample
            passed = sample[0] - before[0]
            # Rows arrive in chunks, so differences over shorter times would jump. The last sample
            # always ends a difference, so that the curve reaches the end.
            if passed >= 5 or (sample is samples[-1] and passed > 0):
                points.append((sample[0], (count(sample[1]) - count(before[1])) / passed))
                before = sample
    return curves


def _times(record: Record) -> str:
    shown = list(record.samples.items())[:_MOST_MEMBERS]
    scale = _scale(0.0, record.total_s)
    shapes = []
    used = set()
    for row, (label, samples) in enumerate(shown):
        top = row * _ROW
        place = 0.0
        time_s = samples[-1][1].time_s
        shapes.append(f'<text x="0" y="{top + 15}">{escape(label)}</text>')
        for use, percent in percentages(time_s).items():
            used.add(use)
            title = f"<title>{WORDS[use]}: {percent}%, {time_s[use]:.1f} s</title>"
            shapes.append(
                f'<rect x="{_LEFT + place * scale:.1f}" y="{top + 3}"'
                f' width="{max(time_s[use] * scale, 0.5):.1f}" height="{_ROW - 6}"'
                f' fill="{_COLORS[use]}">{title}</rect>'
            )
            place += time_s[use]
    height = len(shown) * _ROW
    shapes.append(_axis(0.0, record.total_s, height))
    keys = "".join(
        f'<span class=key style="background:{color}"></span>{WORDS[use]}'
        for use, color in _COLORS.items()
        if use in used
    )
    left_out = len(record.samples) - len(shown)
    more = f"<p>{left_out} more members are left out.</p>" if left_out else ""
    return f"{_svg(height + 20, shapes)}<p>{keys}</p>{more}"


def _chart(curves: Sequence[_Curve], total_s: float) -> str:
    shown = [curve for curve in curves if curve[1]][: len(_LINES)]
    values = [value for _, points in shown for _, value in points]
    low = min(*values, 0.0)
    high = max(*values, 0.0)
    # The scale divides by the difference, which is zero for a curve of zeros.
    high = high if high > low else low + 1.0
    # A metric may have its first value late, so the axis begins there and not at the start of the
    # run.
    begin_s = min(points[0][0] for _, points in shown)
    scale_x = _scale(begin_s, total_s)
    scale_y = (_HEIGHT - 10) / (high - low)
    shapes = [
        f'<line x1="{_LEFT}" y1="{_HEIGHT}" x2="{_WIDTH}" y2="{_HEIGHT}" stroke="#999"/>',
        f'<text x="0" y="15">{high:,.4g}</text><text x="0" y="{_HEIGHT}">{low:,.4g}</text>',
    ]
    for (label, points), color in zip(shown, _LINES):
        places = " ".join(
            f"{_LEFT + (x - begin_s) * scale_x:.1f},{_HEIGHT - (y - low) * scale_y:.1f}"
            for x, y in points
        )
        title = f"<title>{escape(label)}</title>"
        shapes.append(
            f'<polyline points="{places}" fill="none" stroke="{color}"'
            f' stroke-width="1.5">{title}</polyline>'
        )
    shapes.append(_axis(begin_s, total_s, _HEIGHT))
    keys = "".join(
        f'<span class=key style="background:{color}"></span>{escape(label)}'
        for (label, _), color in zip(shown, _LINES)
    )
    return f"{_svg(_HEIGHT + 20, shapes)}<p>{keys}</p>"


def _scale(begin_s: float, end_s: float) -> float:
    return (_WIDTH - _LEFT) / max(end_s - begin_s, 0.1)


def _axis(begin_s: float, end_s: float, top: int) -> str:
    places = [(begin_s, "start"), ((begin_s + end_s) / 2, "middle"), (end_s, "end")]
    scale = _scale(begin_s, end_s)
    return "".join(
        f'<text x="{_LEFT + (seconds - begin_s) * scale:.1f}" y="{top + 15}"'
        f' text-anchor="{anchor}">{seconds:.0f} s</text>'
        for seconds, anchor in places
    )


def _svg(height: int, shapes: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0,0,{_WIDTH},{height}" xmlns="http://www.w3.org/2000/svg"'
        f' role="img">{"".join(shapes)}</svg>'
    )
