"""The status of a member as text and as a file, and the clock of its phases."""

from __future__ import annotations

import pathlib

import pytest

from akdl.wire.status_pb2 import MemberStatus
from bridge.member.status import ENDED, FEEDING, STARTING, TRAINING, WRITE_S, Clock, StatusFile
from tests.support.statuses import status_of


def test_a_clock_adds_up_phases_and_waits() -> None:
    clock = Clock(10.0)
    clock.look(12.0, STARTING, True, False)
    clock.look(13.0, FEEDING, False, True)
    clock.look(15.0, FEEDING, False, False)
    clock.look(16.0, TRAINING, False, False)
    clock.look(17.0, FEEDING, False, False)  # a look that came late
    clock.look(20.0, ENDED, False, False)
    assert clock.phase_s == {STARTING: 2.0, FEEDING: 3.0, TRAINING: 2.0}
    assert (clock.script_waited_s, clock.flink_waited_s, clock.entries()["age_s"], clock.phase) == (2.0, 1.0, 10.0, ENDED)


def test_a_file_is_written_each_second(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path))
    file, status = StatusFile("g-chief-0-0", 1.0), status_of("g", 0, "chief 0")
    assert file.is_due(1.0)
    file.write(status, 1.0)
    (path,) = tmp_path.iterdir()
    assert MemberStatus.FromString(path.read_bytes()) == status and path.stat().st_mode & 0o777 == 0o600
    assert not file.is_due(1.0 + WRITE_S / 2) and file.is_due(1.0 + WRITE_S)


def test_the_last_status_has_a_file_that_nobody_has_read(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flink gives out for seconds what it has given out before: a driver took the rows of the second before for all."""
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path))
    file = StatusFile("g-chief-0-0", 1.0)
    file.write(status_of("g", 0, "chief 0"), 1.0)
    (before,) = tmp_path.iterdir()
    last = status_of("g", 0, "chief 0", phase=ENDED)
    file.write(last, 1.5)
    (path,) = tmp_path.iterdir()
    assert path.stem == before.stem and path.name != before.name and MemberStatus.FromString(path.read_bytes()) == last


def test_without_a_folder_nothing_is_written(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path / "none"))
    file = StatusFile("g-chief-0-0", 0.0)
    file.write(status_of("g", 0, "chief 0"), 0.0)
    assert not file.is_due(9.0) and list(tmp_path.iterdir()) == []
