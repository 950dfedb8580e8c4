"""The process of a member with its folder, server and log file, around an interpreter that runs no script."""

from __future__ import annotations

import os
import pathlib
import threading
from collections.abc import Iterator
from typing import Any, Callable

import pytest

from akdl.wire import Wishes
from bridge.exceptions import ConfigurationError
from bridge.member.script_process import ScriptProcess
from bridge.member.session import Session
from bridge.schema import Schema
from bridge.settings import GroupSettings, UserFile
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = pytest.mark.process


@pytest.fixture
def start(tmp_path: pathlib.Path) -> Iterator[Callable[..., tuple[ScriptProcess, threading.Condition]]]:
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


def test_the_folder_comes_and_goes_with_the_process(start: Any) -> None:
    process, _ = start("cat main.py; exec sleep 600")
    wait_until(lambda: process.last_lines == ["# mine"], "the process reads its file")
    assert process.exit_status is None and process.name == "TestOp, ps 0" and process.label == "ps 0"
    process.close()
    assert process.exit_status is not None and not os.path.exists(process.folder)


def test_whoever_waits_is_told_of_the_exit(start: Any) -> None:
    process, changed = start("while [ ! -e go ]; do sleep 0.02; done; exit 3")
    with changed:
        pathlib.Path(process.folder, "go").touch()
        assert changed.wait_for(lambda: process.exit_status == 3, DEADLINE_S)


def test_a_process_that_is_asked_to_end_may_clean_up(start: Any) -> None:
    process, _ = start("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done")
    wait_until(lambda: process.last_lines == ["ready"], "the process runs")
    process.stop(0.0)
    assert process.exit_status == 0 and process.last_lines[-1] == "bye"
    assert os.path.exists(process.folder), "its folder stays until it is closed"


def test_an_error_has_the_last_lines(start: Any) -> None:
    process, _ = start("echo one; echo two")
    process.wait(DEADLINE_S)
    text = str(process.error("it failed", "--- a detail ---"))
    assert text.splitlines() == [
        "TestOp, ps 0 (main.py): it failed", "--- a detail ---", "--- last lines of the process ---", "one", "two",
    ]  # fmt: skip


def test_lines_go_to_the_log_file_and_the_driver(
    start: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path))
    process, _ = start("echo hello", print_process_info=True)
    process.wait(DEADLINE_S)
    process.close()
    (log,) = tmp_path.glob("akdl-*.log")
    assert log.name == "akdl-TestOp-group-ps-0-0.log" and log.read_text() == "hello\n"
    assert capsys.readouterr().out == "[TestOp, ps 0] hello\n"


def test_what_cannot_be_started_leaves_nothing_when_it_is_closed(
    start: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ConfigurationError, match="/no/python"):
        start("", python="/no/python")
    (folder,) = tmp_path.glob("akdl-*")
    assert folder.is_dir()
