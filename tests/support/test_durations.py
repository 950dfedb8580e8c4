"""Whole runs record where their time goes, and what the machine was doing when a test failed."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from tests.support import durations
from tests.support.deadline import DEADLINE_S
from tests.support.environment import ENVIRONMENT

HOOKS = "from tests.support.durations import pytest_configure, pytest_fixture_setup, pytest_runtest_makereport\n"
TESTS = """
import time
import pytest
from tests.support.leftovers import wait_until

@pytest.fixture
def slow():
    time.sleep(0.2)

def test_one(slow):
    wait_until(lambda: False, "the moon is blue", 0.01)
"""


@pytest.mark.process
@pytest.mark.parametrize("processes", [[], ["--numprocesses", "1"]])
def test_a_run_records_its_seconds_and_the_state_of_the_machine(
    tmp_path: pathlib.Path, processes: list[str]
) -> None:
    (tmp_path / "conftest.py").write_text(HOOKS)
    (tmp_path / "test_it.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), *processes, str(tmp_path)],
        cwd=durations.ROOT, env={**ENVIRONMENT, "AKDL_TEST_DURATIONS": str(tmp_path / "run.json"), "PYTEST_ADDOPTS": ""},
        capture_output=True, text=True, timeout=4 * DEADLINE_S,
    )  # fmt: skip
    assert (
        "s until the moon is blue" in done.stdout and f"on {os.cpu_count()} cores" in done.stdout
    ), done.stdout
    run = json.loads((tmp_path / "run.json").read_text())
    (test,) = run["tests"].items()
    assert test[0].endswith("test_it.py::test_one") and test[1] >= 0.2
    assert any(
        name.endswith("::slow") and seconds >= 0.2 for name, seconds in run["fixtures"].items()
    )


def test_the_seconds_of_files_are_shown_and_kept(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(durations, "OF_FILES", tmp_path / "durations.txt")
    run = {
        "tests": {
            "tests/a.py::test_1": 1.25,
            "tests/a.py::test_2": 2.0,
            "tests/b.py::test_3": 0.25,
        },
        "fixtures": {},
    }
    (tmp_path / "run.json").write_text(json.dumps(run))
    assert durations.seconds_of_files() == {}
    durations.main([str(tmp_path / "run.json")])
    assert "3.2  tests/a.py" in capsys.readouterr().out
    assert durations.seconds_of_files() == {"tests/a.py": 3.0}
