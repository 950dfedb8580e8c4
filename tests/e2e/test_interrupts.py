"""Ctrl-C in a terminal and the interrupt of a notebook: the job ends, nothing of it is left, and
the notebook goes on.

`AKDL_TEST_INTERRUPTS=10` interrupts ten notebook jobs in each phase instead of one in some of them.
Every second time another thread than the main one gets the signal, as the kernel may choose.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pexpect
import psutil
import pytest
from jupyter_client.manager import start_new_kernel

from tests.e2e.jobs import SCRIPTS
from tests.support.environment import ENVIRONMENT
from tests.support.leftovers import DEADLINE_S, is_running, wait_until

pytestmark = pytest.mark.flink

ROUNDS = int(os.environ.get("AKDL_TEST_INTERRUPTS", "0"))
EVERY_PHASE = (
    "starting",
    "feeding",
    "training",
    "exporting",
    "collecting",
    "without_script",
    "streaming",
)
PHASES = EVERY_PHASE * ROUNDS or ("training", "without_script", "streaming")
PATH = os.pathsep.join((str(SCRIPTS.parents[2]), str(SCRIPTS)))


class _Notebook:
    def __init__(self, folder: pathlib.Path) -> None:
        self._manager, self._client = start_new_kernel(
            kernel_name="python3",
            cwd=str(folder),
            env=_variables(folder),
            startup_timeout=4 * DEADLINE_S,
        )

    @property
    def pid(self) -> int:
        return int(self._manager.provisioner.pid)

    def begin(self, code: str) -> str:
        """Start a cell."""
        return str(self._client.execute(code))

    def end(self, cell: str) -> tuple[str, str]:
        """Wait for a cell, and return what it raised and what it printed."""
        printed, deadline = "", time.monotonic() + 4 * DEADLINE_S
        while True:
            message: Any = self._client.get_iopub_msg(timeout=max(deadline - time.monotonic(), 0.1))
            if message["parent_header"].get("msg_id") != cell:
                continue
            content = message["content"]
            if message["msg_type"] == "stream" and content["name"] == "stdout":
                printed += content["text"]
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                break
        reply: Any = self._client.get_shell_msg(timeout=DEADLINE_S)
        while reply["parent_header"].get("msg_id") != cell:
            reply = self._client.get_shell_msg(timeout=DEADLINE_S)
        return reply["content"].get("ename", ""), printed

    def interrupt(self, elsewhere: bool = False) -> None:
        """Send the signal: to the process, or to a thread of it that is not the main one."""
        if not elsewhere:
            self._manager.interrupt_kernel()
            return
        threads = [each.id for each in psutil.Process(self.pid).threads() if each.id != self.pid]
        # the kernel chooses such a one, too
        hears = next(each for each in threads if not _blocks_interrupts(self.pid, each))
        assert ctypes.CDLL(None).tgkill(self.pid, hears, signal.SIGINT) == 0

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


def _blocks_interrupts(pid: int, thread: int) -> bool:
    status = pathlib.Path(f"/proc/{pid}/task/{thread}/status").read_text()
    (blocked,) = (
        int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigBlk:")
    )
    return bool(blocked & 1 << signal.SIGINT - 1)


def _variables(folder: pathlib.Path) -> dict[str, str]:
    (folder / "tmp").mkdir()
    return {**ENVIRONMENT, "TMPDIR": str(folder / "tmp"), "PYTHONPATH": PATH}


def _scripts_below(pid: int) -> list[int]:
    found = []
    for each in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if (
                any(part.startswith("akdl.") for part in each.cmdline())
                and each.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(each.pid)
    return found


@pytest.fixture
def notebook(tmp_path: pathlib.Path) -> Iterator[_Notebook]:
    notebook = _Notebook(tmp_path)
    processes = [psutil.Process(notebook.pid)]
    try:
        yield notebook
        processes += processes[0].children(recursive=True)
    finally:
        notebook.close()
    wait_until(
        lambda: not any(is_running(each.pid) for each in processes),
        "the kernel and what it started have ended",
    )


@pytest.mark.long
@pytest.mark.fault("jobs", "A notebook runs the next job after an interrupt")
def test_a_notebook_goes_on_after_interrupts(notebook: _Notebook, tmp_path: pathlib.Path) -> None:
    assert notebook.end(notebook.begin("import interrupted_jobs; interrupted_jobs.prepare()")) == (
        "",
        "",
    )
    for number, phase in enumerate(PHASES):
        (tmp_path / "begun").unlink(missing_ok=True)
        cell = notebook.begin(f"interrupted_jobs.run({phase!r})")
        wait_until((tmp_path / "begun").exists, f"the job is {phase}", 4 * DEADLINE_S)
        begun = time.monotonic()
        notebook.interrupt(elsewhere=number // len(EVERY_PHASE) % 2 == 1)
        assert notebook.end(cell)[0] == "KeyboardInterrupt", phase
        print(f"{phase}: the cell ended after {time.monotonic() - begun:.1f} s")
        wait_until(lambda: not _scripts_below(notebook.pid), f"{phase}: no process is left")
        wait_until(
            lambda: not list((tmp_path / "tmp").glob("akdl-*")), f"{phase}: no work folder is left"
        )
        assert notebook.end(notebook.begin("print(interrupted_jobs.left())")) == ("", "[]\n"), phase


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*forkpty:DeprecationWarning")
@pytest.mark.fault("jobs", "Ctrl-C in a terminal cancels the job and ends the program")
def test_ctrl_c_in_a_terminal_ends_the_program(tmp_path: pathlib.Path) -> None:
    program = pexpect.spawn(
        sys.executable, [str(SCRIPTS / "interrupted_jobs.py"), "training"],
        cwd=str(tmp_path), env=_variables(tmp_path), encoding="utf-8", codec_errors="replace", timeout=4 * DEADLINE_S,
    )  # fmt: skip
    try:
        wait_until((tmp_path / "begun").exists, "the script trains", 4 * DEADLINE_S)
        (script,) = _scripts_below(program.pid)
        begun = time.monotonic()
        program.sendintr()
        program.expect(pexpect.EOF)
        print(f"the program ended after {time.monotonic() - begun:.1f} s")
        assert program.before is not None and "KeyboardInterrupt" in program.before
        assert program.wait() in (1, 130) or program.signalstatus == signal.SIGINT
    finally:
        program.close(force=True)
    wait_until(lambda: not is_running(script), "no process is left")
    wait_until(lambda: not list((tmp_path / "tmp").glob("akdl-*")), "no work folder is left")
