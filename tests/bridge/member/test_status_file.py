"""A status in a file."""

from __future__ import annotations

import pathlib

import pytest

from bridge.member.status import MemberStatus
from bridge.member.status_file import WRITE_S, StatusFile


def test_a_file_is_written_each_second(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path))
    file, status = StatusFile("g-chief-0-0", 1.0), MemberStatus("g", 0, "chief 0")
    assert file.is_due(1.0)
    file.write(status, 1.0)
    (path,) = tmp_path.iterdir()
    assert MemberStatus.from_json(path.read_text()) == status and path.stat().st_mode & 0o777 == 0o600
    assert not file.is_due(1.0 + WRITE_S / 2) and file.is_due(1.0 + WRITE_S)


def test_without_a_folder_nothing_is_written(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINK_LOG_DIR", str(tmp_path / "none"))
    file = StatusFile("g-chief-0-0", 0.0)
    file.write(MemberStatus("g", 0, "chief 0"), 0.0)
    assert not file.is_due(9.0) and list(tmp_path.iterdir()) == []
