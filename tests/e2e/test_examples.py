"""The examples print what their docstrings say."""

from __future__ import annotations

import ast
import os
import pathlib
import runpy
import subprocess
import sys
from collections.abc import Callable

import pytest

from operators import resetEnv
from tests.support.deadline import DEADLINE_S
from tests.support.environment import ENVIRONMENT

# A fork of a process that has TensorFlow once hung in `fit`, so the scripts of examples get
# processes of their own.
pytestmark = [
    pytest.mark.estimator,
    pytest.mark.flink,
    pytest.mark.tf,
    pytest.mark.own_processes,
]
slow, long = pytest.mark.slow, pytest.mark.long
EXAMPLES = pathlib.Path(__file__).parent.parent.parent / "examples"


def check_output(name: str, printed: str) -> None:
    docstring = ast.get_docstring(
        ast.parse((EXAMPLES / name / "job.py").read_text(encoding="utf-8"))
    )
    promised = [
        line.strip() for line in docstring.split("prints\n", 1)[1].splitlines() if line.strip()
    ]
    assert [line.strip() for line in printed.splitlines() if line.strip()] == promised


@long
def test_a_program_of_its_own_prints_what_its_docstring_says(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "sql_to_sql" / "job.py")],
        cwd=tmp_path, capture_output=True, text=True, timeout=14 * DEADLINE_S, env={**ENVIRONMENT, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check_output("sql_to_sql", done.stdout)
    assert os.listdir(tmp_path) == [], "nothing is left in the current folder"


@pytest.fixture
def run(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run an example as the main program, and return what it prints; programs of their own would
    each start Java.
    """

    def run_example(name: str, *arguments: str) -> str:
        folder = tmp_path / "empty"
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(EXAMPLES / name)
        monkeypatch.setattr(sys, "argv", [str(EXAMPLES / name / "job.py"), *arguments])
        try:
            runpy.run_path(sys.argv[0], run_name="__main__")
        finally:
            resetEnv()
        assert os.listdir(folder) == [], "nothing is left in the current folder"
        return capsys.readouterr().out

    return run_example


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("function_predictor", marks=slow),
        # Pages and other tests have scripts like these.
        *(
            pytest.param(name, marks=long)
            for name in (
                "online_training", "parquet_scoring", "train_together", "filter_rows", "forecasting", "own_data", "wide_and_deep", "estimator_two_tower", "estimator_mnist",
            )
        ),
    ],
)  # fmt: skip
def test_output_is_that_of_the_docstring(name: str, run: Callable[..., str]) -> None:
    check_output(name, run(name))


@long
def test_the_sample_prints_its_model_table(run: Callable[..., str]) -> None:
    header, first, *others = run("dnn_batch").splitlines()
    assert header.split() == ["model_id", "model_info"]
    assert first.split()[:2] == ["0", "0"] and first.endswith(".zip")
    assert others and others[0].split()[2].startswith("UEsDB"), "base64 of a zip archive"


@long
def test_one_program_for_all_clusters_runs_on_this_machine(
    run: Callable[..., str], tmp_path: pathlib.Path
) -> None:
    assert run("on_a_cluster", "--wait", str(tmp_path / "doubled")) == ""
    rows = [
        line for path in (tmp_path / "doubled").iterdir() for line in path.read_text().splitlines()
    ]
    assert sorted(rows) == [f"{x},{2 * x}" for x in range(10)]


def test_the_sample_is_the_one_of_the_first_steps() -> None:
    """Page and example show the same job; only the script's location differs."""
    page = (EXAMPLES.parent / "docs" / "first_steps.md").read_text(encoding="utf-8")
    job = (EXAMPLES / "dnn_batch" / "job.py").read_text(encoding="utf-8")
    shown = (
        page.split("The job:\n\n```python\n")[1]
        .split("```")[0]
        .replace('["tf_dnn_batch.py"]', "[script]")
    )
    shown = shown.replace('"tf_dnn_batch.py"', "script")
    lines = [line for line in shown.splitlines() if line.strip() and not line.startswith("#")]
    assert [
        line
        for line in lines
        if line.split("  #")[0] not in [text.split("  #")[0] for text in job.splitlines()]
    ] == []


def test_the_index_lists_every_example_and_scripts_are_short() -> None:
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [
        path.name
        for path in EXAMPLES.iterdir()
        if path.is_dir() and path.name[0] != "_" and f"]({path.name}/" not in index
    ] == []
    assert {
        str(path): n
        for path in EXAMPLES.glob("*/*.py")
        if (n := len(path.read_text("utf-8").splitlines())) > 125
    } == {}
