"""The process of a member with its folder, server and log file, around an interpreter that runs no
script.
"""

from __future__ import annotations

import os
import pathlib
import threading
from collections.abc import Iterator
from typing import Any, Callable

import pytest

from akdl.wire import Outcome, Success, Wishes
from bridge.exceptions import ConfigurationError
from bridge.host.work_folder import WorkFolder
from bridge.member.script_process import (
    ScriptProcess,
    launch,
    open_log_file,
    own_variables,
    report_end,
    task_of,
)
from bridge.member.session import Session
from bridge.schema import Schema
from bridge.settings import GroupSettings, UserFile
from tests.support.leftovers import DEADLINE_S, task_processes, wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def start(
    tmp_path: pathlib.Path,
) -> Iterator[Callable[..., tuple[ScriptProcess, threading.Condition]]]:
    """Starts a shell script in place of the interpreter."""
    made = []

    def run(script: str, **changes: Any) -> tuple[ScriptProcess, threading.Condition]:
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
        values: dict[str, Any] = {"python": str(python), **changes}
        settings = GroupSettings(
            "TestOp", "batch", 2, 1, Schema.parse("id BIGINT"), Schema.parse("x DOUBLE"), "main.py",
            (UserFile("main.py", b"# mine\n"),), **values,
        )  # fmt: skip
        changed = threading.Condition()
        process = ScriptProcess(settings, "group", 2, 0, changed)
        made.append(process)
        process.start(Session(0, 100, process.name), lambda: None, Wishes, lambda line: None)
        return process, changed

    yield run
    for process in made:
        process.close()
        process.close()


def test_work_folder_exists_only_while_its_process_runs(start: Any) -> None:
    process, _ = start("cat main.py; exec sleep 600")
    wait_until(lambda: process.child.last_lines == ["# mine"], "the process reads its file")
    assert (
        process.child.exit_status is None
        and process.name == "TestOp, ps 0"
        and process.label == "ps 0"
    )
    process.close()
    assert process.child.exit_status is not None and not os.path.exists(process.folder)


def test_exit_of_the_process_wakes_waiting_threads(start: Any) -> None:
    process, changed = start("while [ ! -e go ]; do sleep 0.02; done; exit 3")
    with changed:
        pathlib.Path(process.folder, "go").touch()
        assert changed.wait_for(lambda: process.child.exit_status == 3, DEADLINE_S)


def test_a_process_that_is_asked_to_end_may_clean_up(start: Any) -> None:
    process, _ = start("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    wait_until(lambda: process.child.last_lines == ["ready"], "the process runs")
    process.stop(0.0)
    assert process.child.exit_status == 0 and process.child.last_lines[-1] == "bye"
    assert os.path.exists(process.folder), "its folder stays until it is closed"


def test_error_of_a_process_has_its_last_lines(start: Any) -> None:
    process, _ = start("echo one; echo two")
    process.child.wait(DEADLINE_S)
    text = str(process.error("it failed", "--- a detail ---"))
    assert text.splitlines() == [
        "TestOp, ps 0 (main.py): it failed", "--- a detail ---", "--- last lines of the process ---", "one", "two",
    ]  # fmt: skip


def test_lines_go_to_the_log_file_and_the_driver(
    start: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path))
    process, _ = start("echo hello", print_process_info=True)
    process.child.wait(DEADLINE_S)
    process.close()
    (log,) = tmp_path.glob("akdl-*.log")
    assert log.name == "akdl-TestOp-group-ps-0-0.log" and log.read_text() == "hello\n"
    assert capsys.readouterr().out == "[TestOp, ps 0] hello\n"


def test_failed_start_keeps_its_folder_until_it_is_closed(
    start: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ConfigurationError, match="/no/python"):
        start("", python="/no/python")
    (folder,) = tmp_path.glob("akdl-*")
    assert folder.is_dir()


SAYS_WHAT_IT_GOT = '#!/bin/sh\necho "ARGS=$*"\necho "CWD=$(pwd)"\nenv\n'
SAYS_ITS_GPUS = '#!/bin/sh\necho "$CUDA_VISIBLE_DEVICES"\nexec sleep 600\n'


def settings(**changes: Any) -> GroupSettings:
    values: dict[str, Any] = {
        "operator": "TestOp",
        "kind": "batch",
        "num_workers": 2,
        "num_ps": 1,
        **changes,
    }
    return GroupSettings(
        input_schema=Schema.parse("id BIGINT NOT NULL"), output_schema=Schema.parse("x DOUBLE"),
        main_script="pkg/main.py", user_files=(UserFile("pkg/main.py", b""),), **values,
    )  # fmt: skip


@pytest.fixture
def folder() -> Iterator[WorkFolder]:
    made = WorkFolder(())
    yield made
    made.remove()


@pytest.fixture
def launched(folder: WorkFolder, tmp_path: pathlib.Path) -> Iterator[Callable[..., dict[str, str]]]:
    """Starts a process, waits for its end and returns what it said."""
    python = tmp_path / "python"
    python.write_text(SAYS_WHAT_IT_GOT)
    python.chmod(0o755)

    def run(index: int = 0, **changes: Any) -> dict[str, str]:
        lines: list[str] = []
        group = settings(**{"python": str(python), **changes})
        child = launch(
            group,
            index,
            folder,
            own_variables(folder, "unix:/bridge.sock", "secret", 4),
            lines.append,
            lambda: None,
        )
        assert child.wait(DEADLINE_S) and child.exit_status == 0
        return dict(line.split("=", 1) for line in lines if "=" in line)

    return run


def test_process_receives_variables_of_its_bridge_and_none_of_the_task(
    launched: Any, folder: WorkFolder
) -> None:
    said = launched(env_vars=("MINE=1",), intra_op_parallelism=2)
    assert said["ARGS"] == "-m akdl.process.preflight akdl.entry"
    assert said["CWD"] == folder.path
    ours = {name: value for name, value in said.items() if name.startswith("AKDL_")}
    assert int(ours.pop("AKDL_PARENT_FD")) > 2
    assert ours == {
        "AKDL_ADDRESS": "unix:/bridge.sock", "AKDL_TOKEN": "secret", "AKDL_ATTEMPT": "4", "AKDL_WORK_DIR": folder.path,
    }  # fmt: skip
    assert (said["MINE"], said["TF_NUM_INTRAOP_THREADS"], said["PYTHONPATH"]) == (
        "1",
        "2",
        folder.library,
    )


def test_variables_for_users_reach_a_process(
    launched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AKDL_TRACEBACK", "full")
    said = launched(env_vars=("AKDL_ARCHIVE_RATIO=300",))
    assert (said["AKDL_TRACEBACK"], said["AKDL_ARCHIVE_RATIO"]) == ("full", "300")


@pytest.mark.fault("hosts", "A missing interpreter is an error with its path")
def test_missing_interpreter_is_an_error_with_its_path(folder: WorkFolder) -> None:
    with pytest.raises(
        ConfigurationError, match="TestOp: pythonEnv names the interpreter /no/such/python"
    ):
        launch(settings(python="/no/such/python"), 0, folder, {}, lambda line: None, lambda: None)


def test_workers_have_gpus_of_their_own_and_servers_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, folder: WorkFolder
) -> None:
    devices = {f"fake{os.getpid()}{letter}" for letter in "abc"}
    monkeypatch.setenv("AKDL_GPUS", ",".join(devices))
    python = tmp_path / "python"
    python.write_text(SAYS_ITS_GPUS)
    python.chmod(0o755)
    said: dict[int, list[str]] = {index: [] for index in range(3)}
    group = settings(python=str(python), gpus_per_worker=1, stop_timeout_s=0.1)
    children = [
        launch(group, index, folder, {}, said[index].append, lambda: None) for index in range(3)
    ]
    try:
        wait_until(lambda: all(said.values()), "all have said what they have")
        (chief,), (worker,), (server,) = said.values()
        assert server == "" and {chief, worker} < devices and chief != worker
    finally:
        for child in children:
            child.stop(0.0)


def test_more_gpus_than_there_are_is_an_error_of_that_process(
    monkeypatch: pytest.MonkeyPatch, folder: WorkFolder
) -> None:
    monkeypatch.setenv("AKDL_GPUS", f"fake{os.getpid()}")
    with pytest.raises(
        ConfigurationError,
        match="^TestOp, worker 0: 2 GPUs are wanted for one process, but this host has only 1",
    ):
        launch(settings(gpus_per_worker=2), 1, folder, {}, lambda line: None, lambda: None)
    assert not task_processes()


def test_task_of_a_batch_has_all_settings_of_the_operator(folder: WorkFolder) -> None:
    task = task_of(settings(user_params='{"a": 1}', weight_column="w", exact_doubles=True), folder)
    assert (task.operator, task.kind, task.user_params, task.num_workers, task.exact_doubles) == (
        "TestOp",
        "batch",
        '{"a": 1}',
        2,
        True,
    )
    assert (task.work_dir, task.main_script) == (
        folder.path,
        os.path.join(folder.path, "pkg", "main.py"),
    )
    assert [column.name for column in task.input_columns] == ["id", "w"], (
        "with the weight, which the table does not have"
    )
    assert [column.name for column in task.output_columns] == ["x"]
    assert (task.chunk_wait_ms, task.commits, list(task.extra_inputs)) == (0, False, [])


def test_task_of_a_stream_has_waiting_time_commits_and_extra_inputs(folder: WorkFolder) -> None:
    extra = (Schema.parse("a INT"), Schema.parse("b STRING, c INT"))
    task = task_of(
        settings(kind="stream", chunk_wait_s=0.25, replay="uncommitted", extra_schemas=extra),
        folder,
    )
    assert (task.chunk_wait_ms, task.commits) == (250, True)
    short = settings(kind="stream", chunk_wait_s=0.0005, save_every_s=1e9, publish_every_s=1e9)
    task_of_short = task_of(short, folder)
    assert task_of_short.chunk_wait_ms == 1, "0 would be no limit"
    assert task_of_short.save_every_ms == task_of_short.publish_every_ms == 10**12
    assert [[column.name for column in each.columns] for each in task.extra_inputs] == [
        ["a"],
        ["b", "c"],
    ]


def test_log_file_is_stored_with_those_of_flink(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path))
    monkeypatch.setenv("MAX_LOG_FILE_NUMBER", "2")
    file = open_log_file("op-chief-0", 10, None)
    assert file is not None
    file.write("ł")
    assert (tmp_path / "akdl-op-chief-0.log").read_text(encoding="utf-8") == "ł\n", (
        "written line by line"
    )
    for _ in range(9):
        file.write("line")
    file.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "akdl-op-chief-0.log",
        "akdl-op-chief-0.log.1",
    ], "as Flink's"
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path / "missing"))
    assert open_log_file("op-chief-0", 10, None) is None
    monkeypatch.delenv("FLINK_LOG_DIR")
    assert open_log_file("op-chief-0", 10, None) is None


@pytest.mark.parametrize(
    ("apart", "sizes", "lines"), [(True, (4, 3, 3), 2), (True, (), 1), (False, (4, 3, 3), 1)]
)
def test_warnings_of_scripts_and_of_workers_that_trained_apart_are_printed(
    capsys: pytest.CaptureFixture[str], apart: bool, sizes: tuple[int, ...], lines: int
) -> None:
    session = Session(0, 1, "TestOp, chief 0")
    session.outcome = Outcome(success=Success(warnings=["it has lost a thread"]))
    report_end("TestOp, chief 0", session, settings(trains_apart=apart), True, sizes)
    printed = capsys.readouterr().err.splitlines()
    assert (
        printed[0] == "akdl: TestOp, chief 0 (pkg/main.py): it has lost a thread"
        and len(printed) == lines
    )
    said = "akdl: TestOp: the chief's model was trained on 4 of 10 rows: numWorkers defaults to the parallelism, so 3 workers"
    assert lines == 1 or printed[1].startswith(said)
