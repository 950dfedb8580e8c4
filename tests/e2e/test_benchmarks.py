"""The short form of benchmarks: they run, and write what they found. What they find here means
nothing.
"""

from __future__ import annotations

import json
import os
import pathlib
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from operators import resetEnv
from tests.support.deadline import DEADLINE_S
from tests.support.environment import ENVIRONMENT
from tests.support.frameworks import python_with

pytestmark = [pytest.mark.flink, pytest.mark.tf]
BENCHMARKS = pathlib.Path(__file__).parent.parent.parent / "benchmarks"


def run(folder: pathlib.Path, script: str, *options: str) -> str:
    """Run a benchmark and return what it printed."""
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / f"{script}.py"), "--folder", str(folder), *options],
        capture_output=True, text=True, timeout=14 * DEADLINE_S, env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def run_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., str]]:
    """Run a benchmark as the main program of this process, and return what it prints; one of its
    own would start Java.
    """
    monkeypatch.syspath_prepend(BENCHMARKS)

    def run_benchmark(folder: pathlib.Path, script: str, *options: str) -> str:
        file = str(BENCHMARKS / f"{script}.py")
        monkeypatch.setattr(sys, "argv", [file, "--folder", str(folder), *options])
        runpy.run_path(file, run_name="__main__")
        return capsys.readouterr().out

    yield run_benchmark
    resetEnv()
    for path in BENCHMARKS.glob("*.py"):
        sys.modules.pop(path.stem, None)


def figures(folder: pathlib.Path, name: str, printed: str) -> dict[Any, Any]:
    """Return what a benchmark wrote, by the name of the line; each is in its table too, and there
    is a chart.
    """
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads((folder / f"{name}.json").read_text())["figures"]
    for figure in found:
        assert figure["name"] in printed
        assert len(figure["values"]) == len(figure["limits"])
    return {figure["name"]: figure for figure in found}


@pytest.mark.frameworks
def test_loops_of_pytorch_and_tensorflow_read_the_same_rows(tmp_path: pathlib.Path) -> None:
    python_with("torch")
    printed = run(tmp_path, "frameworks", "--rounds", "1")
    assert len(figures(tmp_path, "frameworks", printed)) == 2


@pytest.mark.frameworks
def test_jobs_and_runtimes_of_models_predict_the_same_rows(tmp_path: pathlib.Path) -> None:
    python_with("torch")
    printed = run(tmp_path, "runtimes", "--rounds", "1", "--scale", "0.01")
    assert {"ONNX", "PyTorch"} == set(figures(tmp_path, "runtimes", printed))


@pytest.mark.long
def test_a_benchmark_prints_a_table_and_leaves_figures_and_a_chart(tmp_path: pathlib.Path) -> None:
    found = figures(tmp_path, "codec", run(tmp_path, "codec", "--rounds", "1"))
    verbs = ("send", "encode", "decode")
    cases = (
        "STRING",
        "ARRAY<FLOAT>",
        "10 FLOAT, 1 BIGINT",
        "5 STRING, 3 DOUBLE, 2 ARRAY, 20 % null",
    )
    assert {f"{verb} {case}" for verb in verbs for case in cases} <= set(found)
    for figure in found.values():
        assert figure["ratio"] == pytest.approx(figure["values"][0] / figure["limits"][0])
        assert figure["verdict"] == ("yes" if figure["ratio"] >= figure["target"] else "NO")


@pytest.mark.long
def test_feed_benchmark_prints_rates_and_processor_time(
    tmp_path: pathlib.Path, run_here: Callable[..., str]
) -> None:
    printed = run_here(
        tmp_path, "feed", "--rounds", "1", "--scale", "0.001", "--only", "dataset_file, STREAMING"
    )
    found = figures(tmp_path, "feed", printed)
    assert set(found) == {"dataset_file, STREAMING", "processor time, dataset_file"}
    assert found["dataset_file, STREAMING"]["verdict"] == "undecided"
    assert "Processor seconds per million rows (in the kernel)" in printed


@pytest.mark.parametrize(
    ("script", "line"),
    [
        # shows what all share: each further one is a job of the same code
        pytest.param("predict", "a dense layer of 10 to 1", marks=pytest.mark.slow),
        *(
            pytest.param(*each, marks=pytest.mark.long)
            for each in (("output", "write_batch"), ("files", "predicted"), ("sinks", "parquet"))
        ),
    ],
)
def test_benchmark_runs_the_chosen_line_alone(
    tmp_path: pathlib.Path, run_here: Callable[..., str], script: str, line: str
) -> None:
    """One line of each: the others are further jobs by the same code, which `make bench` runs."""
    printed = run_here(tmp_path, script, "--rounds", "1", "--scale", "0.001", "--only", line)
    assert {name.partition(", ")[0] for name in figures(tmp_path, script, printed)} == {line}


@pytest.mark.long
def test_grid_benchmark_runs_the_chosen_combinations(
    tmp_path: pathlib.Path, run_here: Callable[..., str]
) -> None:
    options = [
        "--rounds",
        "1",
        "--scale",
        "0.001",
        "--bundles",
        "16",
        "--chunks",
        "",
        "--segments",
        "65536",
    ]
    found = figures(tmp_path, "grid_feed", run_here(tmp_path, "grid", "feed", *options))
    cells = {name.split(";")[0] for name in found}
    assert cells == {"as is", "bundles 16, segments 65,536"}


@pytest.mark.long
@pytest.mark.skipif(
    "AKDL_TEST_LARGE_ROWS" not in os.environ, reason="two programs: set AKDL_TEST_LARGE_ROWS"
)
def test_memory_benchmark_has_figures_of_all_processes(tmp_path: pathlib.Path) -> None:
    found = figures(tmp_path, "memory", run(tmp_path, "memory", "--scale", "0.002"))
    assert set(found) == {"driver", "jvm", "tensorflow"}


@pytest.mark.long
@pytest.mark.skipif(
    "AKDL_TEST_LARGE_ROWS" not in os.environ, reason="takes minutes: set AKDL_TEST_LARGE_ROWS"
)
@pytest.mark.parametrize("case", ["500 rows", "2,500 rows", "cell", "doubles", "line end"])
def test_large_rows_take_memory_in_bounds(tmp_path: pathlib.Path, case: str) -> None:
    printed = run(tmp_path, "large_rows", "--only", case)
    found = figures(tmp_path, "large_rows", printed)
    assert len(found) == 3 and all(figure["verdict"] != "NO" for figure in found.values()), printed


@pytest.mark.long
def test_a_stream_of_fifteen_seconds_takes_no_more_and_more_memory(tmp_path: pathlib.Path) -> None:
    printed = run(tmp_path, "streams", "--seconds", "15")
    assert "rows at 5,000 rows/s, each once" in printed and "delay in ms: p50" in printed
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")
    found = figures(tmp_path, "streams", printed)
    assert len(found["delay, p99"]["values"]) == 5
    for kind in ("driver", "jvm", "tensorflow"):
        memory = found[f"memory, {kind}"]
        assert memory["values"][0] < 1.15 * memory["limits"][0] + 20, printed
