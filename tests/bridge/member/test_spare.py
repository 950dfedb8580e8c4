"""The process that waits for the next script of a program: who takes it, and when it ends."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from akdl.wire import Wishes
from bridge.member import spare
from bridge.member.script_process import ScriptProcess
from bridge.member.session import Session
from bridge.schema import Schema
from bridge.settings import GroupSettings, PythonArchive, UserFile
from tests.support.environment import ENVIRONMENT
from tests.support.leftovers import DEADLINE_S, is_running, wait_until

PROGRAM = pathlib.Path(__file__).parents[2] / "children" / "scripts_in_a_row.py"
FILES = (UserFile("main.py", b"# mine\n"),)


@pytest.fixture
def python(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A shell script in place of the interpreter, which prints what it is sent."""
    monkeypatch.setenv("AKDL_SPARE", "1")
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\necho early\nexec head -n 1 /dev/fd/$AKDL_SPARE_FD\n")
    path.chmod(0o755)
    yield str(path)
    spare._end()


def settings(python: Any, **changes: Any) -> GroupSettings:
    values: dict[str, Any] = {
        "operator": "TensorFlow2BatchOp",
        "num_workers": 1,
        "num_ps": 0,
        "python": python,
        **changes,
    }
    schema = Schema.parse("id BIGINT")
    return GroupSettings(
        kind="batch",
        input_schema=schema,
        output_schema=schema,
        main_script="main.py",
        user_files=FILES,
        **values,
    )


def prepared(of: GroupSettings) -> spare.SpareProcess:
    spare.prepare(of)
    wait_until(lambda: spare._spare is not None, "a process waits")
    assert spare._spare is not None
    return spare._spare


@pytest.mark.process
def test_the_next_script_gets_the_process_its_files_and_all_lines(python: str) -> None:
    waiting = prepared(settings(python))
    wait_until(lambda: waiting.child.last_lines == ["early"], "it has printed a line")
    assert psutil.Process(waiting.child.pid).environ()["AKDL_WORK_DIR"] == waiting.folder.path, (
        "where akdl top looks"
    )
    taken = spare.take(settings(python))
    assert taken is waiting and spare.take(settings(python)) is None
    assert pathlib.Path(taken.folder.path, "main.py").read_bytes() == b"# mine\n"
    lines: list[str] = []
    fork = os.dup(taken._pipe)
    assert taken.run({"AKDL_TOKEN": "secret"}, lines.append, lambda: None)
    assert taken.child.wait(DEADLINE_S) and taken.child.exit_status == 0
    assert lines[0] == "early" and json.loads(lines[1]) == {"AKDL_TOKEN": "secret"}
    assert "secret" not in " ".join(taken._environment.values())
    os.close(fork)
    taken.folder.remove()


@pytest.mark.process
def test_at_most_one_spare_process_waits(python: str) -> None:
    first = prepared(settings(python))
    spare.prepare(settings(python))
    assert spare._spare is first


@pytest.mark.process
@pytest.mark.parametrize(
    "changes",
    [
        {"env_vars": ("TF_USE_LEGACY_KERAS=1",)},
        {"intra_op_parallelism": 1},
        {"python": None},
        {"tmp_dirs": "/"},
        {"num_workers": 2},
        {"num_ps": 1},
        {"gpus_per_worker": 1},
        {"keep_failed_rows": True},
        {"python": PythonArchive("env.tar.gz", "0" * 64, "env.tar.gz")},
    ],
)
def test_scripts_with_other_needs_get_a_new_process(python: str, changes: dict[str, Any]) -> None:
    prepared(settings(python))
    assert spare.take(settings(**{"python": python, **changes})) is None


@pytest.mark.process
@pytest.mark.parametrize("name", ["TF_CPP_MIN_LOG_LEVEL", "OMP_NUM_THREADS", "HOME"])
def test_a_variable_set_since_its_start_needs_a_new_process(
    python: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    waiting = prepared(settings(python))
    monkeypatch.setenv(name, "3")
    assert spare.take(settings(python)) is None
    assert waiting.child.exit_status is not None and not os.path.exists(waiting.folder.path)


@pytest.mark.process
def test_a_process_that_has_ended_is_not_taken(python: str) -> None:
    waiting = prepared(settings(python))
    os.kill(waiting.child.pid, signal.SIGKILL)
    assert waiting.child.wait(DEADLINE_S)
    assert spare.take(settings(python)) is None and not os.path.exists(waiting.folder.path)


@pytest.mark.process
def test_a_process_that_ends_before_its_script_arrives_is_replaced(python: str) -> None:
    waiting, changed = prepared(settings(python)), threading.Condition()
    process = ScriptProcess(settings(python), "group", 0, 0, changed)
    os.kill(waiting.child.pid, signal.SIGKILL)
    assert process.child is waiting.child and waiting.child.wait(DEADLINE_S)
    try:
        process.start(Session(0, 100), lambda: None, Wishes, lambda line: None)
        assert process.child is not waiting.child and process.folder == waiting.folder.path
    finally:
        process.close()


@pytest.mark.process
@pytest.mark.parametrize("fault", ["no interpreter", "a file outside of the folder"])
def test_a_process_ends_whose_script_cannot_be_run(python: str, fault: str) -> None:
    waiting, own = prepared(settings(python)), settings(python)
    if fault == "no interpreter":
        os.unlink(python)
    else:
        own = dataclasses.replace(own, user_files=(UserFile("../main.py", b""),))
    assert spare.take(own) is None
    assert waiting.child.exit_status is not None and not os.path.exists(waiting.folder.path)


@pytest.mark.process
@pytest.mark.parametrize("limits", [{"IDLE_S": 0.1}, {"_LEAST_MEMORY": 1 << 60}])
def test_spare_process_ends_when_unused_or_memory_is_short(
    python: str, monkeypatch: pytest.MonkeyPatch, limits: dict[str, float]
) -> None:
    monkeypatch.setattr(spare, "_LOOK_S", 0.05)
    waiting = prepared(settings(python))
    for name, value in limits.items():
        monkeypatch.setattr(spare, name, value)
    if "IDLE_S" in limits:  # the thread that keeps this one has read the usual time already
        spare._end()
        waiting = prepared(settings(python))
    assert waiting.child.wait(DEADLINE_S)
    wait_until(
        lambda: not os.path.exists(waiting.folder.path) and spare._spare is None,
        "its folder is removed",
    )


@pytest.mark.process
@pytest.mark.parametrize("name", ["AKDL_SPARE", "AKDL_GPUS"])
def test_no_process_waits_where_it_is_not_wanted_or_gpus_are_leased(
    python: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "0")
    spare.prepare(settings(python))
    wait_until(
        lambda: not any(each.name == "akdl-spare" for each in spare.threading.enumerate()),
        "the thread has ended",
    )
    assert spare._spare is None


@pytest.mark.long
@pytest.mark.flink
@pytest.mark.tf
def test_scripts_in_spare_processes_start_as_in_new_ones(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM)], cwd=tmp_path, env={**ENVIRONMENT, "AKDL_SPARE": "1", "TMPDIR": str(tmp_path)},
        capture_output=True, text=True, timeout=10 * DEADLINE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = dict(json.loads(line) for line in done.stdout.splitlines())
    loaded = {name: values["loaded"] for name, values in found.items()}
    assert loaded == {
        "taken": True, "sets a variable": False, "has a module": False, "wants a variable": False, "killed": False,
    }  # fmt: skip
    assert found["taken"]["file"] == "not flushed"
    assert (
        found["has a module"]["termcolor"] == "of the user"
        and found["wants a variable"]["variable"] == "wanted"
    )
    assert not any(is_running(values["pid"]) for values in found.values())
    assert not list(tmp_path.glob("akdl*")), "nothing stays behind"


@pytest.mark.slow
@pytest.mark.flink
@pytest.mark.tf
@pytest.mark.fault(
    "processes", "A program that is killed takes the process along that waits for its next script"
)
def test_spare_process_ends_with_a_killed_program(tmp_path: pathlib.Path) -> None:
    program = subprocess.Popen(
        [sys.executable, str(PROGRAM), "stay"], cwd=tmp_path, env={**ENVIRONMENT, "AKDL_SPARE": "1", "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stdout is not None
    with program, program.stdout:
        waiting = psutil.Process(int(program.stdout.readline()))
        program.kill()
    wait_until(lambda: not is_running(waiting.pid), "the process ends")
    wait_until(lambda: not list(tmp_path.glob("akdl-*")), "its folder is removed")


def test_a_fork_of_the_program_ends_without_its_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spare, "_pid", 1)
    monkeypatch.setattr(spare, "_is_over", False)
    spare._end_with_program()
    assert not spare._is_over, "this process is not the one that has started the spare"
