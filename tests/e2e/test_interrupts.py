"""Ctrl-C, as a terminal or a notebook sends it: the job ends, and the program goes on."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from tests.e2e.jobs import SCRIPTS
from tests.support.environment import ENVIRONMENT
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = pytest.mark.flink


@pytest.fixture
def program(tmp_path: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    root = SCRIPTS.parents[2]
    program = subprocess.Popen(
        [sys.executable, str(SCRIPTS / "interrupted_job.py"), str(SCRIPTS)],
        cwd=tmp_path, env={**ENVIRONMENT, "TMPDIR": str(temporary), "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    yield program
    for process in [*psutil.Process(program.pid).children(recursive=True), program] if program.poll() is None else []:
        process.kill()
    program.communicate()


def test_a_program_goes_on_after_interrupts(program: subprocess.Popen[str], tmp_path: pathlib.Path) -> None:
    assert program.stdout is not None
    assert program.stdout.readline() == "worker, id\n"
    for _ in range(5):
        program.stdout.readline()  # rows of the stream
    program.send_signal(signal.SIGINT)
    for number in range(2):
        wait_until((tmp_path / f"begun{number}").exists, "the script of the job has begun", 4 * DEADLINE_S)
        program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=4 * DEADLINE_S)
    said = [line for line in out.splitlines() if line.startswith("the ")]
    assert said == ["the stream was interrupted", *["the job was interrupted", "the sum is 45"] * 2], err
    assert program.returncode == 0
    wait_until(lambda: not list((tmp_path / "tmp").glob("akdl-*")), "no work folder is left")
