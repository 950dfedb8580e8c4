"""A process that imports TensorFlow first: which scripts it runs, and which begin again without
TensorFlow.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

from akdl.process.preflight import SPARE_FD
from akdl.process.spare import _is_affected
from tests.support.leftovers import DEADLINE_S

PROGRAM = """
import os, sys
from akdl.process.spare import wait_for_script
wait_for_script(os.environ)
print("tensorflow" in sys.modules, os.environ["WORD"], sorted(name for name in os.environ if "SPARE_FD" in name))
"""


@pytest.mark.parametrize(
    ("name", "text", "is_affected"),
    [
        ("main.py", "import tensorflow as tf\ntf.executing_eagerly()\n", False),
        ("main.py", "import os\nos.environ['TF_XLA_FLAGS'] = ''\n", True),
        ("pkg/deep.py", "from os import putenv\n", True),
        ("main.py", "from dotenv import load_dotenv\n", True),
        ("main.py", "exec(open('settings.py').read())\n", True),
        ("notes.txt", "os.environ", False),
        ("json.py", "", True),
        ("json/__init__.py", "", True),
        ("scripts/json.py", "", True),
        ("no_module_has_this_name.py", "", False),
        (".akdl/lib/akdl/os.py", "os.environ", False),
    ],
)
def test_user_files_that_affect_the_import_of_tensorflow_are_found(
    tmp_path: pathlib.Path, name: str, text: str, is_affected: bool
) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert _is_affected(str(tmp_path)) == is_affected


def test_a_link_that_leads_nowhere_does_not_affect_the_import_of_tensorflow(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "settings.py").symlink_to("no_such_file.py")
    assert not _is_affected(str(tmp_path))


@pytest.fixture
def program(tmp_path: pathlib.Path) -> list[str]:
    (tmp_path / "work").mkdir()
    (tmp_path / "tensorflow.py").write_text("")  # the import itself is a matter of jobs
    return [sys.executable, "-c", PROGRAM]


def run(command: list[str], folder: pathlib.Path, sent: bytes) -> subprocess.CompletedProcess[str]:
    reading, writing = os.pipe()
    os.write(writing, sent)
    # A fork of the parent may hold this end open, while a script is sent.
    if not sent:
        os.close(writing)
    try:
        return subprocess.run(
            command, env={**os.environ, SPARE_FD: str(reading), "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
            pass_fds=[reading], capture_output=True, text=True, timeout=DEADLINE_S, cwd=folder / "work",
        )  # fmt: skip
    finally:
        os.close(reading)
        if sent:
            os.close(writing)


@pytest.mark.process
def test_a_script_finds_tensorflow_loaded_and_its_own_variables(
    program: list[str], tmp_path: pathlib.Path
) -> None:
    done = run(program, tmp_path, json.dumps({"WORD": "ä"}).encode() + b"\n")
    assert (done.stdout, done.stderr, done.returncode) == ("True ä []\n", "", 0)


@pytest.mark.process
def test_spare_process_without_a_script_ends_silently(
    program: list[str], tmp_path: pathlib.Path
) -> None:
    done = run(program, tmp_path, b"")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


@pytest.mark.process
def test_an_import_that_fails_is_left_to_the_script(
    program: list[str], tmp_path: pathlib.Path
) -> None:
    (tmp_path / "tensorflow.py").write_text("raise OSError('no such library')")
    done = run(program, tmp_path, b'{"WORD": "a"}\n')
    assert (done.stdout, done.stderr, done.returncode) == ("False a []\n", "", 0)
