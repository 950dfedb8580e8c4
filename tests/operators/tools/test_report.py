"""The page of a record."""

from __future__ import annotations

import html
import json
import pathlib
import re
import xml.etree.ElementTree as ElementTree

import pytest

from akdl.wire.status_pb2 import MemberStatus
from bridge.member.status import DATA, START, TRAINING, WORK
from operators.progress.record import Record
from operators.tools.report import _speeds, main, page_of
from tests.support.browser import opened
from tests.support.statuses import status_of

FIRST = {"kind": "run", "version": 1, "name": "a.py", "size": 2, "started": "2026-01-01"}
# What a reader sees: everything is measured where the browser has put it.
_PROBE = """
<script>
const inside = (shape, box) => shape.left >= box.left - 1 && shape.right <= box.right + 1 && shape.width > 0;
document.documentElement.dataset.seen = JSON.stringify({
  loaded: performance.getEntriesByType("resource").map(each => each.name),
  headings: [...document.querySelectorAll("h2")].map(each => each.textContent),
  advice: [...document.querySelectorAll("li")].map(each => each.innerText),
  isWide: document.documentElement.scrollWidth > innerWidth,
  drawings: [...document.querySelectorAll("svg")].map(svg => {
    const box = svg.getBoundingClientRect();
    const shapes = [...svg.querySelectorAll("rect,polyline")].map(each => inside(each.getBoundingClientRect(), box));
    return {height: box.height, shapes: shapes.length, inside: shapes.every(each => each)};
  }),
});
</script>
"""


def _samples(index: int, is_worker: bool = True) -> list[tuple[float, MemberStatus]]:
    return [
        (
            float(second),
            status_of(
                "g", index, f"<{index}>", is_worker=is_worker, phase=TRAINING, rows_in=1000 * second, age_s=second - 1.0,
                time_s={START: 4.0, DATA: 3.0, WORK: max(second - 8.0, 0.0)}, memory_bytes=second << 20, cpu_s=second,
                metrics={"loss": 1.0 / second, "total_steps": 9.0} if second > 8 else {},
            ),
        )
        for second in range(1, 31)
    ]  # fmt: skip


def test_report_refuses_a_password_as_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["s3://key:hunter2@bucket/a.jsonl"])
    error = capsys.readouterr().err
    assert "all users of this host can read the password" in error and "hunter2" not in error


def test_page_needs_no_other_files_and_escapes_names() -> None:
    samples = {"<0>": _samples(0), "<1>": _samples(1), "ps": _samples(2, is_worker=False)}
    page = page_of(Record("a & b.py", "2026-01-01", 3, samples, 30.0, False))
    assert (
        "http" not in page.replace("http://www.w3.org/2000/svg", "")
        and "<script" not in page
        and "src=" not in page
    )
    assert "a &amp; b.py" in page and "&lt;0&gt;" in page and "60,000 rows in" in page
    drawings = [
        ElementTree.fromstring(f"<svg{part.partition('</svg>')[0]}</svg>")
        for part in page.split("<svg")[1:]
    ]
    bars = [each for each in drawings[0] if each.tag.endswith("rect")]
    assert len(bars) == 9 and len(drawings) == 5  # times, rows in, loss, memory, processors


def test_times_are_read_by_people_and_curves_begin_at_the_left() -> None:
    samples = [
        (seconds, status_of("g", 0, "chief 0", memory_bytes=1 << 30))
        for seconds in (40.0, 60.0, 80.0)
    ]
    page = page_of(
        Record("a.py", "2026-11-28T07:11:02.980138+00:00", 1, {"chief 0": samples}, 80.0, False)
    )
    assert "Started 2026-11-28 07:11:02 UTC, ended well" in page
    (curve,) = re.findall(r'points="(.*?)"', page)
    assert [float(point.split(",")[0]) for point in curve.split()] == [90.0, 475.0, 860.0]
    assert all(f">{label} s</text>" in page for label in (0, 40, 60, 80)), (
        "of the bars, and of the curve"
    )


def test_speeds_begin_again_with_each_attempt() -> None:
    samples = [
        (
            float(second),
            status_of("g", 0, "chief 0", attempt=second // 30, rows_in=second % 30 * 10),
        )
        for second in range(0, 60, 5)
    ]
    ((_, points),) = _speeds({"chief 0": samples}, lambda status: status.rows_in)
    assert [speed for _, speed in points] == [10.0] * 10


@pytest.mark.process
def test_a_browser_shows_the_page_and_loads_nothing_else(tmp_path: pathlib.Path) -> None:
    record = Record(
        "a & b.py", "2026-01-01", 2, {"<0>": _samples(0), "<1>": _samples(1)}, 30.0, False
    )
    path = tmp_path / "page.html"
    path.write_text(page_of(record) + _PROBE, encoding="utf-8")
    document, console = opened(path, tmp_path / "browser")
    found = re.search(r'data-seen="([^"]*)"', document)
    assert found is not None and console == []
    seen = json.loads(html.unescape(found.group(1)))
    assert seen["loaded"] == [] and not seen["isWide"]
    assert seen["headings"] == [
        "Advice", "Where the time went", "Rows in, each second", "loss", "Memory of a process, in MB", "Processors in use",
    ]  # fmt: skip
    assert seen["advice"] == [
        "The script is the bottleneck: raise numWorkers, or make its work cheaper.\n"
        "The time of the workers: useful work 76%, waiting for data 10%, start 14%. <0> used 30 s of processors."
    ]
    # three uses of each member's time, then its curves
    assert [each["shapes"] for each in seen["drawings"]] == [6, 2, 2, 2, 2]
    assert all(each["height"] > 40 and each["inside"] for each in seen["drawings"])


@pytest.mark.parametrize("failed", [None, True])
def test_record_without_samples_has_a_page(failed: bool | None) -> None:
    assert "a.py" in page_of(Record("a.py", "", 1, {}, 0.0, failed))


def test_akdl_report_writes_a_page_for_a_record(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("run.jsonl").write_text(
        '{"kind": "run", "version": 1, "name": "a.py", "size": 1, "started": ""}\n{"kind": "end", "t": 3.0, "failed": false}\n'
    )
    assert (
        main(["run.jsonl"]) == 0
        and capsys.readouterr().out == f"{tmp_path}/run.html\n"
        and pathlib.Path("run.html").exists()
    )
    (folder := tmp_path / "runs").mkdir()
    pathlib.Path("run.jsonl").rename(folder / "a.jsonl")
    assert main([f"file://{folder}/a.jsonl"]) == 0 and (folder / "a.html").exists(), (
        "next to the record"
    )
    assert (
        main(["nothing.jsonl"]) == 1
        and "cannot read the record nothing.jsonl" in capsys.readouterr().err
    )
    with pytest.raises(SystemExit, match="2"):
        main([])


def test_record_beyond_the_limit_is_refused(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AKDL_RECORD_MB", "1")
    (tmp_path / "a.jsonl").write_bytes(bytes(2 << 20))
    assert main([str(tmp_path / "a.jsonl")]) == 1
    assert (
        "it has more than 1048576 bytes; if you trust it, set AKDL_RECORD_MB"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([{**FIRST, "size": "x"}], "line 1: Failed to parse size field"),
        ([FIRST, [1]], r"line 2: expected an object, got \[1\]"),
        (
            [FIRST, {"kind": "sample", "t": 1.0, "label": 5, "index": 0}],
            "line 2: Failed to parse label field: expected string",
        ),
        (
            [FIRST, {"kind": "sample", "t": 10**400, "label": "a", "index": 0}],
            "line 2: int too large",
        ),
        (
            [FIRST, {"kind": "sample", "t": "x", "label": "a", "index": 0}],
            "line 2: Failed to parse t field",
        ),
        (
            [FIRST, {"kind": "end", "t": 1.0, "failed": 0}],
            "line 2: Failed to parse failed field: Expected true or false",
        ),
        (
            [FIRST, {"kind": "sample", "t": 1.0, "label": "a", "time_s": {"a": None}}],
            "line 2: Failed to parse time_s field",
        ),
    ],
)
def test_a_record_of_wrong_types_is_refused_in_a_sentence(
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    lines: list[object],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert main([str(tmp_path / "a.jsonl")]) == 1
    assert re.fullmatch(
        rf"akdl report: cannot read the record .*a.jsonl: {words}.*\n", capsys.readouterr().err
    )


def test_page_that_cannot_be_written_is_an_error(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(FIRST))
    assert main([str(tmp_path / "a.jsonl"), str(tmp_path / "nowhere" / "a.html")]) == 1
    assert (
        capsys.readouterr().err
        == f"cannot write the page {tmp_path}/nowhere/a.html: No such file or directory\n"
    )


def test_unreadable_address_of_a_record_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["http://127.0.0.1:9/a/%2e%2e"]) == 1
    assert "cannot read the record http://127.0.0.1:9/a/%2e%2e: " in capsys.readouterr().err
