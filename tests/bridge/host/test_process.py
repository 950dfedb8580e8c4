"""A child process and all the ways it may end."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
from typing import Any

import psutil
import pytest

from bridge.host.process import ChildProcess, describe_exit, stacks_of
from tests.support.leftovers import DEADLINE_S, is_running, wait_until

pytestmark = pytest.mark.process
CHILD = str(pathlib.Path(__file__).parents[2] / "children" / "misbehave.py")


class Started:
    """A child of ours with what it said so far."""

    def __init__(self, *arguments: str | int) -> None:
        self.lines, self.exits = [], []
        command = [sys.executable, CHILD, *map(str, arguments)]
        self.child = ChildProcess(
            command, dict(os.environ), "/", self.take, lambda: self.exits.append(1), kept_lines=10
        )

    def take(self, line: str) -> None:
        self.lines.append(line)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *error: Any) -> None:
        self.child.stop(0)
        assert not psutil.pid_exists(self.child.pid)


@pytest.mark.parametrize("status", [0, 3])
def test_child_has_its_exit_status_and_last_lines(status: int) -> None:
    with Started("exit", status) as started:
        assert started.child.wait(DEADLINE_S)
        assert started.child.exit_status == status
        assert started.child.last_lines == ["way: exit"]
        wait_until(lambda: started.exits == [1], "on_exit is called once")


def test_killed_child_has_the_signal_as_its_status() -> None:
    with Started("signal", signal.SIGKILL.value) as started:
        assert started.child.wait(DEADLINE_S)
        assert started.child.exit_status == -signal.SIGKILL
        assert "SIGKILL" in repr(started.child)


def test_only_the_last_lines_are_kept_but_all_are_passed_on() -> None:
    with Started("lines", 5000) as started:
        assert started.child.wait(DEADLINE_S)
        wait_until(lambda: len(started.lines) > 5000, "all lines are read")
        assert started.child.last_lines == [f"line {number}" for number in range(4990, 5000)]
        assert started.lines == ["way: lines", *(f"line {number}" for number in range(5000))]


def test_the_last_lines_are_there_when_reading_is_slow() -> None:
    """As on a busy host. They may hold the only reason of a failure."""

    class Slow(Started):
        def take(self, line: str) -> None:
            threading.Event().wait(1.5 if not self.lines else 0)
            super().take(line)

    with Slow("lines", 5) as started:
        assert started.child.wait(DEADLINE_S)
        assert started.lines == ["way: lines", *(f"line {number}" for number in range(5))]


def test_a_process_that_keeps_the_output_open_delays_no_end() -> None:
    with Started("daemon") as started:
        assert started.child.wait(DEADLINE_S)
        name, pid = started.child.last_lines[-1].split()
        assert name == "daemon:" and is_running(int(pid))
        os.kill(int(pid), signal.SIGKILL)


def test_stop_ends_a_child_that_sleeps_and_may_be_called_twice() -> None:
    with Started("sleep") as started:
        wait_until(lambda: "ready" in started.lines, "the child is ready")
        started.child.stop(0)
        started.child.stop(0)
        assert started.child.exit_status == -signal.SIGTERM


@pytest.mark.fault("scripts", "A process that ignores SIGTERM is killed after 2 s")
def test_a_child_that_ignores_sigterm_is_killed() -> None:
    with Started("ignore-term") as started:
        wait_until(lambda: "ready" in started.lines, "the child is ready")
        started.child.stop(0)
        assert started.child.exit_status == -signal.SIGKILL


def test_patient_stop_lets_a_child_end_on_its_own() -> None:
    with Started("exit", 0) as started:
        started.child.stop(DEADLINE_S)
        assert started.child.exit_status == 0


@pytest.mark.fault("scripts", "Processes that a script started end with it")
def test_grandchildren_end_with_the_child() -> None:
    with Started("grandchild") as started:
        assert started.child.wait(DEADLINE_S)
        grandchild = int(started.lines[1].split()[1])
        wait_until(lambda: not is_running(grandchild), "the grandchild is gone")


def test_a_missing_program_leaves_nothing_open() -> None:
    before = psutil.Process().num_fds()
    with pytest.raises(FileNotFoundError):
        ChildProcess(["/does/not/exist"], {}, "/", print, lambda: None, kept_lines=1)
    # other threads have theirs for a moment
    wait_until(lambda: psutil.Process().num_fds() <= before, "nothing is left open")


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (None, "running"),
        (2, "exited with status 2"),
        (-9, "too little memory"),
        (-11, "native code"),
        (-64, "signal 64"),
    ],
)
def test_describe_exit_explains_statuses_and_signals(status: int | None, words: str) -> None:
    assert words in describe_exit(status)


HANDLES = """
import faulthandler, signal, sys, time
file = open(sys.argv[1], "w")
faulthandler.register(signal.SIGUSR2, file)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("has_file", [False, True])
def test_the_question_for_stacks_does_not_end_a_process_that_is_starting(
    tmp_path: pathlib.Path, has_file: bool
) -> None:
    path = tmp_path / "stacks.txt"
    if has_file:
        path.touch()
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            stacks_of(process.pid, str(path))
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
        finally:
            process.kill()


def test_stacks_whose_writer_is_interrupted_are_whole(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stacks.txt").touch()
    sizes = iter([0, 0, 5, 5, 9, 9, 9])
    monkeypatch.setattr("bridge.host.process._size", lambda path: next(sizes))
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            stacks_of(process.pid, str(tmp_path / "stacks.txt"))
        finally:
            process.kill()
    assert list(sizes) == []


def test_stacks_of_a_python_started_by_a_shell_script_are_shown(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "stacks.txt"
    command = ["sh", "-c", f'{sys.executable} -c "$1" "$2"; exit 3', "sh", HANDLES, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            assert "most recent call first" in stacks_of(process.pid, str(path))
            assert process.poll() is None
        finally:
            os.killpg(process.pid, signal.SIGKILL)
