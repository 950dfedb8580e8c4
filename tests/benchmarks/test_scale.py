from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest


@pytest.mark.process
def test_what_a_group_costs_is_measured_and_written(tmp_path: pathlib.Path) -> None:
    program = pathlib.Path(__file__).parents[2] / "benchmarks" / "scale.py"
    command = [sys.executable, str(program), "--members", "3", "--seconds", "0.5", "--folder", str(tmp_path)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert [line.split()[0] for line in printed.splitlines()] == ["members", "3"]
    assert (tmp_path / "scale.json").exists()
