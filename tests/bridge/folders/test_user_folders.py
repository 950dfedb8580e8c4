"""Folders that all programs of one user share; planted ones are in tests/bridge/host/test_planted_links.py."""

from __future__ import annotations

import os
import pathlib

import pytest

from bridge.exceptions import ConfigurationError
from bridge.folders.user_folders import models_path, private_folder


def test_a_folder_is_made_once_and_for_this_user_alone(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "own")
    assert private_folder(path, "tests") == private_folder(path, "tests") == path
    assert os.stat(path).st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_read_is_refused(tmp_path: pathlib.Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(ConfigurationError, match=f"{tmp_path}, for tests, is not a folder that only this user can"):
        private_folder(str(tmp_path), "tests")


def test_a_taken_name_is_avoided_where_the_user_has_a_runtime_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(0o700)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    name = f"akdl_models_{os.geteuid()}"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert models_path() == str(tmp_path / name)
    (tmp_path / name).mkdir(0o755)
    assert models_path() == str(runtime / name)
