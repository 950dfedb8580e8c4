"""A user's file with the name of one of our packages is named, with what to do."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from operators.neighbours import check_neighbours


def test_ours_are_found() -> None:
    check_neighbours()


@pytest.mark.process
def test_a_file_that_hides_ours(tmp_path: pathlib.Path) -> None:
    (tmp_path / "bridge.py").write_text("SPAN = 3\n")
    (tmp_path / "job.py").write_text("import operators\n")
    run = subprocess.run([sys.executable, str(tmp_path / "job.py")], capture_output=True, text=True, timeout=60)
    last = run.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: {tmp_path / 'bridge.py'} hides the package 'bridge'"), run.stderr
    assert "give it another name" in last
