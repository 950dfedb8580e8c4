"""A status in a file."""

from __future__ import annotations

import pathlib

import pytest

from bridge.member.status import ENDED, MemberStatus
from bridge.member.status_file import WRITE_S, StatusFile


def test_a_file_is_written_each_second(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path))
    file, status = StatusFile("g-chief-0-0", 1.0), MemberStatus("g", 0, "chief 0")
    assert file.is_due(1.0)
    file.write(status, 1.0)
    (path,) = tmp_path.iterdir()
    assert MemberStatus.from_json(path.read_text()) == status and path.stat().st_mode & 0o777 == 0o600
    assert not file.is_due(1.0 + WRITE_S / 2) and file.is_due(1.0 + WRITE_S)


def test_the_last_status_has_a_file_that_nobody_has_read(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Flink gives out for seconds what it has given out before: a driver took the rows of the second before for all."""
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path))
    file = StatusFile("g-chief-0-0", 1.0)
    file.write(MemberStatus("g", 0, "chief 0"), 1.0)
    (before,) = tmp_path.iterdir()
    last = MemberStatus("g", 0, "chief 0", phase=ENDED)
    file.write(last, 1.5)
    (path,) = tmp_path.iterdir()
    assert path.stem == before.stem and path.name != before.name and MemberStatus.from_json(path.read_text()) == last


def test_without_a_folder_nothing_is_written(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path / "none"))
    file = StatusFile("g-chief-0-0", 0.0)
    file.write(MemberStatus("g", 0, "chief 0"), 0.0)
    assert not file.is_due(9.0) and list(tmp_path.iterdir()) == []
