"""Calls to a process that is stopped."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
from collections.abc import Iterator

import grpc
import psutil
import pytest

from bridge.folders.process_folder import kill_stopped, note_process
from bridge.serving.model_watch import Stalled, result_of
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = pytest.mark.process


class Call:
    """A call that is answered after so many looks; none for never."""

    def __init__(self, looks: int | None = None) -> None:
        self.looks = looks

    def result(self, timeout: float) -> str:
        if self.looks == 0:
            return "answer"
        if self.looks is not None:
            self.looks -= 1
        raise grpc.FutureTimeoutError


@pytest.fixture
def process(tmp_path: pathlib.Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sh", "-c", "while :; do :; done"], start_new_session=True) as started:
        note_process(str(tmp_path), started.pid)
        yield started
        started.kill()


def test_a_process_without_progress_is_killed(process: subprocess.Popen[bytes], tmp_path: pathlib.Path) -> None:
    process.send_signal(signal.SIGSTOP)
    with pytest.raises(Stalled):
        result_of(Call(), str(tmp_path), 0.2)
    assert process.wait(DEADLINE_S) == -signal.SIGKILL


def test_a_process_that_computes_may_take_its_time(process: subprocess.Popen[bytes], tmp_path: pathlib.Path) -> None:
    class SlowCall(Call):
        def result(self, timeout: float) -> str:
            used = psutil.Process(process.pid)
            before = used.cpu_times().user
            wait_until(lambda: used.cpu_times().user > before + 0.05, "the process computes")
            return super().result(timeout)

    assert result_of(SlowCall(looks=3), str(tmp_path), 0.001) == "answer"
    assert process.poll() is None


def test_only_a_stopped_process_is_killed_at_the_end(process: subprocess.Popen[bytes], tmp_path: pathlib.Path) -> None:
    kill_stopped(str(tmp_path))
    assert process.poll() is None
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    kill_stopped(str(tmp_path))
    assert process.wait(DEADLINE_S) == -signal.SIGKILL


def test_another_process_of_the_same_number_is_left_alone(process: subprocess.Popen[bytes], tmp_path: pathlib.Path) -> None:
    (tmp_path / "process").write_text(f"{process.pid} 1.0")
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    kill_stopped(str(tmp_path))
    assert result_of(Call(looks=2), str(tmp_path), 0.001) == "answer"
    process.send_signal(signal.SIGCONT)
    assert process.poll() is None
