"""The notebook among the examples runs, and shows what is stored in it.

`AKDL_STORE_NOTEBOOK=1` stores what it shows now.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest

from tests.support.deadline import DEADLINE_S
from tests.support.environment import ENVIRONMENT

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "notebook" / "birds.ipynb"


def code_cells(path: pathlib.Path) -> list[dict[str, Any]]:
    return [
        cell
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]


def shown(cell: dict[str, Any]) -> list[str]:
    """Return what a cell shows as text; HTML shows the same."""
    return [
        "".join(each["data"]["text/plain"] if "data" in each else each["text"])
        for each in cell["outputs"]
    ]


def test_the_stored_notebook_tells_nothing_of_a_machine() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert all(
        cell["outputs"]
        for cell in code_cells(NOTEBOOK)
        if "\n\n\ndef" not in "".join(cell["source"])
    )
    for told in ("/home/", "/root/", "/tmp/", "iopub", "shell.execute"):
        assert told not in text


@pytest.mark.flink
@pytest.mark.tf
@pytest.mark.long
def test_run_notebook_shows_the_stored_output(tmp_path: pathlib.Path) -> None:
    result, empty = tmp_path / "result.ipynb", tmp_path / "empty"
    empty.mkdir()
    # of the runner, and of its kernel
    paths = os.pathsep.join(filter(None, [str(ROOT), ENVIRONMENT.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.notebook", str(NOTEBOOK), str(result)],
        cwd=empty, capture_output=True, text=True, timeout=14 * DEADLINE_S, env={**ENVIRONMENT, "PYTHONPATH": paths},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert os.listdir(empty) == [], "nothing is left in the current folder"
    if os.environ.get("AKDL_STORE_NOTEBOOK"):
        shutil.copyfile(result, NOTEBOOK)
    assert list(map(shown, code_cells(result))) == list(map(shown, code_cells(NOTEBOOK)))
