"""What a script logs lies at the address when the script has ended, and while it runs."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import fsspec
import pytest

from akdl.storage import training_folders
from akdl.storage.training_folders import LogFolder
from tests.support.leftovers import wait_until


def test_a_path_is_the_folder_itself(tmp_path: pathlib.Path) -> None:
    folder = LogFolder(str(tmp_path / "run"), str(tmp_path))
    with folder.kept():
        assert folder.path == str(tmp_path / "run")
    assert not (tmp_path / "run").exists(), "TensorFlow makes it, if the script logs anything"


def test_files_come_to_an_address_while_the_script_runs_and_at_its_end(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_folders, "COPY_S", 0.01)
    system = fsspec.filesystem("memory")
    folder = LogFolder("memory://runs/a", str(tmp_path))
    events = pathlib.Path(folder.path) / "train" / "events"
    with folder.kept():
        events.parent.mkdir(parents=True)
        events.write_bytes(b"1")
        wait_until(lambda: bool(system.exists("/runs/a/train/events")), "it is copied")
        with pytest.raises(ValueError, match="^the script$"):
            with LogFolder("memory://runs/b", str(tmp_path)).kept():
                events.write_bytes(b"12")
                raise ValueError("the script")
    assert system.cat("/runs/a/train/events") == b"12" == system.cat("/runs/b/train/events")


def test_failing_address_of_logs_is_reported_once(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = LogFolder("nosuch://user:secret@host/runs", str(tmp_path))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "events").write_bytes(b"1")
    folder.copy()
    folder.copy()
    (line,) = caplog.messages
    assert "cannot copy the script's logs to nosuch://" in line and "secret" not in line


def test_file_that_disappears_during_a_copy_does_not_stop_it(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    system = fsspec.filesystem("memory")
    folder = LogFolder("memory://runs/c", str(tmp_path))
    for name in ("a.tmp", "b.tmp", "events"):
        pathlib.Path(folder.path).mkdir(exist_ok=True)
        pathlib.Path(folder.path, name).write_bytes(b"1")
    stat, put = os.stat, type(system).put_file

    def gone_before_the_look(path: str, **options: Any) -> os.stat_result:
        if str(path).endswith("a.tmp"):
            pathlib.Path(path).unlink(missing_ok=True)
        return stat(path, **options)

    def gone_before_the_copy(system: Any, path: str, target: str, **options: Any) -> None:
        pathlib.Path(folder.path, "b.tmp").unlink(missing_ok=True)
        put(system, path, target, **options)

    monkeypatch.setattr(os, "stat", gone_before_the_look)
    monkeypatch.setattr(type(system), "put_file", gone_before_the_copy)
    folder.copy()
    assert system.cat("/runs/c/events") == b"1" and not system.exists("/runs/c/a.tmp")
    assert caplog.messages == []
