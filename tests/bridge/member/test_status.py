"""The status of a member as text and as a file, and the clock of its phases."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from akdl.wire.status_pb2 import MemberStatus
from bridge.member.status import (
    DATA,
    ENDED,
    FEEDING,
    PEERS,
    START,
    STARTING,
    TRAINING,
    WORK,
    WRITE_S,
    Clock,
    StatusFile,
)
from tests.support.statuses import status_of


def test_each_second_has_one_use() -> None:
    clock = Clock(10.0)
    clock.look(12.0, STARTING, START)
    clock.look(13.0, FEEDING, DATA)
    clock.look(15.0, FEEDING, WORK, "step (a.py)")
    clock.look(14.0, FEEDING, DATA)  # another thread was faster
    clock.look(16.0, TRAINING, WORK, "parse (a.py)")
    clock.look(17.0, FEEDING, WORK)  # a look that came late
    clock.look(20.0, ENDED, PEERS)
    assert clock.entries() == {
        "phase": ENDED, "age_s": 10.0, "time_s": {START: 2.0, DATA: 1.0, WORK: 4.0, PEERS: 3.0},
        "place_s": {"step (a.py)": 2.0, "parse (a.py)": 1.0},
    }  # fmt: skip


def test_a_file_is_written_each_second(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path))
    file, status = StatusFile("g-chief-0-0", 1.0), status_of("g", 0, "chief 0")
    assert file.is_due(1.0)
    file.write(status, 1.0)
    (path,) = tmp_path.iterdir()
    assert (
        MemberStatus.FromString(path.read_bytes()) == status
        and path.stat().st_mode & 0o777 == 0o600
    )
    assert not file.is_due(1.0 + WRITE_S / 2) and file.is_due(1.0 + WRITE_S)


def test_last_status_is_written_to_a_new_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Flink gives out for seconds what it has given out before: a driver took the rows of the
    second before for all.
    """
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path))
    file = StatusFile("g-chief-0-0", 1.0)
    file.write(status_of("g", 0, "chief 0"), 1.0)
    (before,) = tmp_path.iterdir()
    last = status_of("g", 0, "chief 0", phase=ENDED)
    file.write(last, 1.5)
    (path,) = tmp_path.iterdir()
    assert (
        path.stem == before.stem
        and path.name != before.name
        and MemberStatus.FromString(path.read_bytes()) == last
    )


@pytest.mark.process
def test_log_folder_is_read_from_the_command_of_the_task_manager(
    tmp_path: pathlib.Path,
) -> None:
    worker = "from bridge.member import status; status.is_worker_process = lambda: True; print(status.log_folder())"
    command = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {worker!r}])"
    option = "-Dlog.file=log/flink-taskexecutor-0.log"
    environment = {"PYTHONPATH": os.getcwd()}
    run = subprocess.run(
        [sys.executable, "-c", command, option],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stdout == f"{tmp_path}/log\n"


def test_a_local_program_keeps_statuses_in_its_own_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell from which a cluster was started exports the variable to local programs too, and akdl
    top has to find them.
    """
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path / "log"))
    (own := tmp_path / "own").mkdir()
    StatusFile("g-chief-0-0", 1.0, str(own)).write(status_of("g", 0, "chief 0"), 1.0)
    assert [path.name for path in own.iterdir()] == ["akdl-g-chief-0-0.status"]


def test_without_a_folder_nothing_is_written(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path / "none"))
    file = StatusFile("g-chief-0-0", 0.0)
    file.write(status_of("g", 0, "chief 0"), 0.0)
    assert not file.is_due(9.0) and list(tmp_path.iterdir()) == []
