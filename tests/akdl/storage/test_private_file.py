"""Files and folders for one user alone."""

from __future__ import annotations

import os
import pathlib
import pwd
from collections.abc import Iterator

import pytest

from akdl.storage.local_files import is_private_folder, not_private, private


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def test_new_files_are_private_and_existing_ones_become_so(tmp_path: pathlib.Path) -> None:
    (tmp_path / "old").touch(0o666)
    for name in ("new", "old"):
        with open(tmp_path / name, "w", opener=private) as file:
            assert not os.get_inheritable(file.fileno())
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_reading_does_not_change_the_mode(tmp_path: pathlib.Path) -> None:
    (tmp_path / "theirs").touch(0o644)
    with open(tmp_path / "theirs", opener=private):
        pass
    assert (tmp_path / "theirs").stat().st_mode & 0o777 == 0o644


def test_only_folders_of_this_user_alone_are_private(tmp_path: pathlib.Path) -> None:
    (tmp_path / "private").mkdir(0o700)
    (tmp_path / "open").mkdir(0o750)
    (tmp_path / "link").symlink_to(tmp_path / "private")
    (tmp_path / "file").touch(0o600)
    assert is_private_folder(str(tmp_path / "private"))
    for name, reason in (
        ("open", "has the mode 0750, expected 0700"),
        ("link", "is a link"),
        ("file", "is a file"),
    ):
        path = str(tmp_path / name)
        assert not is_private_folder(path)
        assert not_private(path).startswith(
            f"is not a folder that only this user can access: it {reason}. "
        )


def test_the_folder_of_another_user_is_named(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert not is_private_folder(str(tmp_path))
    assert f"belongs to user {pwd.getpwuid(owner).pw_name} ({owner})" in not_private(str(tmp_path))
