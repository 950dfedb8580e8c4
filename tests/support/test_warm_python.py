"""The Python of tests that start many TensorFlow processes."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

import psutil
import pytest

from akdl.process.preflight import RUN_MODULE
from tests.support.leftovers import is_running, wait_until
from tests.support.warm_python import warm_python

pytestmark = pytest.mark.tf

_TOLD = """
import json, os, sys
warm = "tensorflow" in sys.modules
os.write(int(sys.argv[2]), b"written")
print(json.dumps([warm, os.getcwd(), dict(os.environ), sys.argv[1:], sys.executable, __name__, os.getpid() == os.getsid(0)]))
print("error", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""
_LEFT_OPEN = """
import atexit, threading
left = open("left", "w")
left.write("written")
atexit.register(print, "handler")
threading.Thread(target=lambda: threading.Event().wait(0.1) or print("thread")).start()
"""
_SIGNALS = """
import os, signal, subprocess, sys, threading
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
child = subprocess.Popen(["sleep", "1000"])
print(os.getpid(), child.pid, flush=True)
threading.Event().wait()
"""


def _start(
    folder: pathlib.Path, text: str, *arguments: str, **more: Any
) -> subprocess.Popen[bytes]:
    (folder / "told.py").write_text(text)
    environment = {"PYTHONPATH": str(folder), "TMPDIR": str(folder), "OWN": "\udcff"}
    return subprocess.Popen(
        [warm_python(), "-m", "told", *arguments], env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, **more,
    )  # fmt: skip


def test_a_module_runs_as_in_a_python_of_its_own(tmp_path: pathlib.Path) -> None:
    reading, writing = os.pipe()
    process = _start(tmp_path, _TOLD, "3", str(writing), pass_fds=[writing])
    os.close(writing)
    output, errors = process.communicate()
    assert process.returncode == 3, errors
    warm, *told, name, leads = json.loads(output)
    environment = {"PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path), "OWN": "\udcff"}
    told[1].pop("LC_CTYPE", None)
    assert told == [str(tmp_path), environment, ["3", str(writing)], warm_python()]
    assert (warm, name, leads) == (True, "__main__", True)
    assert errors == b"error\n"
    assert (os.read(reading, 100), os.read(reading, 100)) == (b"written", b"")
    os.close(reading)


def test_a_module_runs_without_the_current_folder_too(tmp_path: pathlib.Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "json.py").write_text("raise SystemExit('planted')")
    code = "import json, sys; print('tensorflow' in sys.modules, sys.argv[1:], __name__)"
    (tmp_path / "own" / "told.py").write_text(code)
    command = [warm_python(), "-c", RUN_MODULE, "told", "argument"]
    environment = {"PYTHONPATH": str(tmp_path / "own")}
    told = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)
    assert told == "True ['argument'] __main__\n"


@pytest.mark.parametrize(
    ("text", "status"),
    [("raise KeyError(1)", 1), ("import os; os.abort()", -signal.SIGABRT), ("", 0)],
)
def test_warm_python_ends_with_the_status_of_the_module(
    tmp_path: pathlib.Path, text: str, status: int
) -> None:
    process = _start(tmp_path, text)
    _, errors = process.communicate()
    assert process.returncode == status
    assert (b"Traceback" in errors) == (status == 1)


def test_warm_python_closes_open_files_and_waits_for_threads(tmp_path: pathlib.Path) -> None:
    output, errors = _start(tmp_path, _LEFT_OPEN).communicate()
    assert (output, errors) == (b"thread\nhandler\n", b"")
    assert (tmp_path / "left").read_text() == "written"


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 7), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_signals_reach_the_module_and_nothing_stays(
    tmp_path: pathlib.Path, number: int, status: int
) -> None:
    process = _start(tmp_path, _SIGNALS)
    assert process.stdout is not None
    pids = [int(word) for word in process.stdout.readline().split()]
    assert psutil.Process(pids[0]).ppid() != process.pid
    process.send_signal(number)
    process.communicate()
    assert process.returncode == status
    wait_until(
        lambda: not any(is_running(pid) for pid in pids), "the module and what it started are gone"
    )


def test_other_commands_are_left_to_a_real_python() -> None:
    code = "import sys; print(sys.executable, 'tensorflow' in sys.modules)"
    assert subprocess.check_output([warm_python(), "-c", code], text=True).split() == [
        sys.executable,
        "False",
    ]
