"""Files that take the place of others when they are whole."""

from __future__ import annotations

import os
import pathlib

import pytest

from akdl.storage import local_files
from akdl.storage.local_files import WholeFile, private


def test_file_appears_only_when_it_is_complete(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with WholeFile(str(path)) as file:
        file.write(b"new")
        assert path.read_text() == "old"
        (unfinished,) = {each.name for each in tmp_path.iterdir()} - {"a"}
        assert unfinished.endswith(local_files.ENDING)
    assert path.read_text() == "new" and os.listdir(tmp_path) == ["a"]
    with WholeFile(str(path), private):
        pass
    assert path.stat().st_mode & 0o777 == 0o600


def test_failed_write_leaves_the_existing_file(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(ValueError, match="^no$"), WholeFile(str(tmp_path / "a")) as file:
        file.write(b"new")
        raise ValueError("no")
    assert (tmp_path / "a").read_text() == "old" and os.listdir(tmp_path) == ["a"]


def test_existing_temporary_name_is_never_opened(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even one that somebody has guessed."""
    monkeypatch.setattr(local_files.secrets, "token_hex", lambda size: "guessed")
    (tmp_path / "mine").write_text("mine")
    (tmp_path / f"a.guessed{local_files.ENDING}").symlink_to(tmp_path / "mine")
    with pytest.raises(FileExistsError):
        WholeFile(str(tmp_path / "a"))
    assert (tmp_path / "mine").read_text() == "mine"
