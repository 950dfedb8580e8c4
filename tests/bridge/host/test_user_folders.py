"""Folders that all programs of one user share; planted ones are in
tests/bridge/host/test_planted_links.py.
"""

from __future__ import annotations

import os
import pathlib
import socket

import pytest

from bridge.exceptions import ConfigurationError
from bridge.host.gpus import _lock_folder
from bridge.host.places import environment_place, model_place, private_folder


def test_a_folder_is_made_once_and_for_this_user_alone(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "own")
    assert private_folder(path, "tests") == private_folder(path, "tests") == path
    assert os.stat(path).st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_read_is_refused(tmp_path: pathlib.Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(
        ConfigurationError, match=f"{tmp_path}, for tests, is not a folder that only this user can"
    ):
        private_folder(str(tmp_path), "tests")


PLACES = {"models": model_place, "envs": environment_place, "gpus": lambda: _lock_folder(None)}


@pytest.mark.fault(
    "security",
    "A folder name that another user has taken stops no job: the cache of the user has the folder",
)
@pytest.mark.parametrize("kind", PLACES)
def test_a_taken_name_is_avoided(
    kind: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("os.access", lambda path, mode: path != "/tmp")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    name = f"akdl_{kind}_{os.geteuid()}"
    assert PLACES[kind]() == str(tmp_path / name)
    (tmp_path / name).chmod(0o755)
    own = f"{tmp_path}/cache/akdl/{name}_{socket.gethostname()}"
    assert PLACES[kind]() == own == PLACES[kind]() and os.stat(own).st_mode & 0o777 == 0o700
    os.chmod(own, 0o755)
    with pytest.raises(
        ConfigurationError, match=f"{own}, for .*, is not a folder that only this user can access"
    ):
        PLACES[kind]()


def test_a_taken_name_is_an_error_where_the_user_has_no_cache(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (tmp_path / f"akdl_envs_{os.geteuid()}").mkdir(0o755)
    with pytest.raises(
        ConfigurationError,
        match=f"^{tmp_path}/akdl_envs_.*, for Python environments, is not a folder",
    ):
        environment_place()
