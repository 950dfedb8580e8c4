"""The page of a record."""

from __future__ import annotations

import pathlib
import xml.etree.ElementTree as ElementTree

import pytest

from bridge.member.status import FEEDING, STARTING, TRAINING, MemberStatus
from operators.progress.record import Record
from operators.report import main, page_of


def _samples(index: int, is_worker: bool = True) -> list[tuple[float, MemberStatus]]:
    return [
        (
            float(second),
            MemberStatus(
                "g", index, f"<{index}>", is_worker, phase=TRAINING, rows_in=1000 * second, age_s=second - 1.0,
                phase_s={STARTING: 4.0, FEEDING: 3.0, TRAINING: max(second - 8.0, 0.0)}, memory_bytes=second << 20, cpu_s=second,
                metrics={"loss": 1.0 / second, "total_steps": 9.0} if second > 8 else {},
            ),
        )
        for second in range(1, 31)
    ]  # fmt: skip


def test_a_page_stands_alone() -> None:
    samples = {"<0>": _samples(0), "<1>": _samples(1), "ps": _samples(2, is_worker=False)}
    page = page_of(Record("a & b.py", "2026-01-01", 3, samples, {FEEDING: 3.0}, 30.0, False))
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "") and "<script" not in page and "src=" not in page
    assert "a &amp; b.py" in page and "&lt;0&gt;" in page and "60,000 rows in" in page
    drawings = [ElementTree.fromstring(f"<svg{part.partition('</svg>')[0]}</svg>") for part in page.split("<svg")[1:]]
    bars = [each for each in drawings[0] if each.tag.endswith("rect")]
    assert len(bars) == 9 and len(drawings) == 6  # phases, rows in and out, loss, memory, processors


@pytest.mark.parametrize("failed", [None, True])
def test_a_run_of_which_nothing_was_seen_has_a_page(failed: bool | None) -> None:
    assert "a.py" in page_of(Record("a.py", "", 1, {}, {}, 0.0, failed))


def test_the_command(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("run.jsonl").write_text(
        '{"kind": "run", "version": 1, "name": "a.py", "size": 1, "started": ""}\n'
        '{"kind": "end", "t": 3.0, "failed": false, "phase_s": {}}\n'
    )
    assert main(["run.jsonl"]) == 0 and capsys.readouterr().out == "run.html\n" and pathlib.Path("run.html").exists()
    assert main(["nothing.jsonl"]) == 1 and "cannot read the record nothing.jsonl" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main([])
