"""The folder of a model process, its pipe and its end; what starts here is no model process, but
reads the pipe as one does.
"""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from bridge.exceptions import ConfigurationError
from bridge.host.process_folder import ProcessFolder, release
from bridge.host.program_folder import sweep
from bridge.serving.model_process import ModelProcess, ModelSettings
from tests.support.leftovers import wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def place(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Where the folders of model processes lie."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path / f"akdl_models_{os.geteuid()}"


class Started(list[subprocess.Popen[bytes]]):
    """Processes that end when nobody holds the other end of their pipe."""

    def __call__(self, pipe: int) -> None:
        self.append(subprocess.Popen(["cat"], stdin=pipe, stdout=subprocess.DEVNULL))


@pytest.fixture
def started() -> Iterator[Started]:
    made = Started()
    yield made
    for process in made:
        process.kill()
        process.wait()


def test_the_first_task_starts_a_process_and_the_last_one_ends_it(
    place: pathlib.Path, started: Started
) -> None:
    first, second = ProcessFolder("group"), ProcessFolder("group")
    pipes = [first.join(started), second.join(started)]
    assert len(started) == 1 and first.has_process() and first.path == second.path
    first.leave(pipes[0])
    first.leave(pipes[0])
    assert started[0].poll() is None
    second.leave(pipes[1])
    wait_until(lambda: started[0].poll() == 0, "the process has ended")
    assert not first.has_process()
    third = first.join(started)
    assert len(started) == 2, "a process that has ended is followed by another one"
    first.leave(third)


def test_release_ends_the_processes_of_the_groups_of_a_job(
    place: pathlib.Path, started: Started
) -> None:
    one, other = ProcessFolder("one"), ProcessFolder("other")
    pipe, kept = one.join(started), other.join(started)
    release({"one"})
    wait_until(lambda: started[0].poll() == 0, "the process has ended")
    following = one.join(started)
    one.leave(pipe)
    assert [os.fstat(end.fileno()).st_nlink for end in (following, kept)] == [1, 1]
    one.leave(following)
    other.leave(kept)


def test_a_start_that_fails_leaves_nothing(place: pathlib.Path) -> None:
    folder = ProcessFolder("group")

    def fail(pipe: int) -> None:
        (place / "group" / "log").touch()
        folder.empty()
        raise OSError("no processes left")

    with pytest.raises(OSError, match="no processes left"):
        folder.join(fail)
    assert os.listdir(place) == []


def test_a_folder_with_a_process_is_not_removed(place: pathlib.Path, started: Started) -> None:
    folder = ProcessFolder("group")
    pipe = folder.join(started)
    folder.remove_unused()
    sweep()
    assert os.listdir(place) == ["group"]
    folder.leave(pipe)
    wait_until(lambda: started[0].poll() == 0, "the process has ended")
    folder.remove_unused()
    assert os.listdir(place) == []


def test_the_address_is_read_where_a_path_is_too_long_for_a_socket(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 100)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    folder = ProcessFolder("group")
    assert folder.socket is None and folder.address is None
    os.mkdir(folder.path)
    pathlib.Path(folder.path, "address").write_text("127.0.0.1:7")
    assert folder.address == "127.0.0.1:7"
    folder.forget_address()
    folder.forget_address()
    assert folder.address is None


STARTING = """
import sys
from bridge.serving import model_process
def never(operator, python):
    print("unpacks", flush=True)
    sys.stdin.read()
model_process.open_interpreter = never
model_process.ModelProcess(model_process.ModelSettings("TestOp", "killed", "{}", "secret"), "model")
"""


def test_leftovers_of_a_killed_task_are_removed_by_the_next_one(place: pathlib.Path) -> None:
    unusable = ModelSettings("TestOp", "next", "{}", "secret", python="/no/python")
    with subprocess.Popen(
        [sys.executable, "-c", STARTING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as task:
        try:
            assert task.stdout.readline() == "unpacks\n"
            with pytest.raises(ConfigurationError, match="/no/python"):
                ModelProcess(unusable, "model")
            assert "killed" in os.listdir(place), "it is still at it"
            task.send_signal(signal.SIGKILL)
            task.wait()
            with pytest.raises(ConfigurationError, match="/no/python"):
                ModelProcess(unusable, "model")
            assert "killed" not in os.listdir(place)
        finally:
            task.kill()
