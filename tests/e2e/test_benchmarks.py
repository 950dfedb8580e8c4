"""The short form of benchmarks whose result is more than a time."""

import json
import pathlib
import subprocess
import sys

import pytest

from tests.support.environment import ENVIRONMENT

BENCHMARKS = pathlib.Path(__file__).parent.parent.parent / "benchmarks"


def test_a_benchmark_prints_a_table_and_leaves_figures_and_a_chart(tmp_path):
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "codec.py"), "--rounds", "1", "--folder", str(tmp_path)],
        capture_output=True, text=True, timeout=400, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "codec.png").read_bytes().startswith(b"\x89PNG")
    figures = json.loads((tmp_path / "codec.json").read_text())["figures"]
    assert {"encode 10 FLOAT, 1 BIGINT", "decode STRING"} <= {figure["name"] for figure in figures}
    for figure in figures:
        assert figure["name"] in done.stdout
        assert figure["ratio"] == pytest.approx(figure["values"][0] / figure["limits"][0])
        assert figure["holds"] == (figure["ratio"] >= figure["target"])


@pytest.mark.flink
@pytest.mark.tf
def test_a_stream_of_thirty_seconds_takes_no_more_and_more_memory(tmp_path):
    chart = tmp_path / "delays.png"
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "streams.py"), "30", "5000", str(chart)],
        cwd=tmp_path, capture_output=True, text=True, timeout=400, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "rows at 5,000 rows/s, each once" in done.stdout and "delay in ms: p50" in done.stdout
    assert chart.read_bytes().startswith(b"\x89PNG")
    memory = json.loads(chart.with_suffix(".json").read_text())["memory_mb"]
    assert set(memory) == {"driver", "jvm", "tensorflow"}
    for before, after in memory.values():
        assert after < 1.15 * before + 20, done.stdout
