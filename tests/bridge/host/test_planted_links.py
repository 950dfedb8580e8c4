"""Another user plants links in the shared place for temporary files, at the names that we use: nothing behind them is touched."""

from __future__ import annotations

import os
import pathlib
import socket
from collections.abc import Callable

import pytest

from akdl.process import owned_folder, shared_folder
from akdl.process.channel import ChannelError
from akdl.rows.extra_files import ExtraFiles
from bridge.exceptions import ConfigurationError
from bridge.host import gpus, interpreter
from bridge.host.sweep import model_place, sweep
from bridge.host.work_folder import WorkFolder
from bridge.schema import Schema, table_columns

COLUMNS = [table_columns(Schema.parse("x BIGINT"))]


def files_in(folder: str) -> None:
    ExtraFiles(os.path.dirname(folder), COLUMNS, False).complete(lambda path, chunks, columns: None, folder)


USED: dict[str, Callable[[str], object]] = {
    f"akdl_models_{os.geteuid()}": lambda place: model_place(),
    f"akdl_envs_{os.geteuid()}": lambda place: interpreter._private_place(),
    f"akdl_gpus_{os.geteuid()}": lambda place: gpus._lock_folder(os.path.join(place, f"akdl_gpus_{os.geteuid()}")),
    "akdl-extra-group-0": lambda place: files_in(os.path.join(place, "akdl-extra-group-0")),
}


@pytest.fixture
def shared(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The place for temporary files."""
    place = tmp_path / "tmp"
    place.mkdir()
    place.chmod(0o1777)
    monkeypatch.setattr("tempfile.tempdir", str(place))
    return place


@pytest.fixture
def precious(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder of this user with a file, and with what folders of ours have in them."""
    folder = tmp_path / "precious"
    folder.mkdir(mode=0o700)
    (folder / "file").write_text("mine")
    return folder


@pytest.mark.parametrize("name", USED)
def test_a_link_at_a_name_of_ours_is_refused(name: str, shared: pathlib.Path, precious: pathlib.Path) -> None:
    (shared / name).symlink_to(precious)
    with pytest.raises((ConfigurationError, ChannelError), match=f"{name}.* only this user can access.*: remove it"):
        USED[name](str(shared))
    sweep()
    assert os.listdir(precious) == ["file"]


def test_what_is_swept_away_is_never_behind_a_link(shared: pathlib.Path, precious: pathlib.Path) -> None:
    for name in (*owned_folder.PREFIXES, "akdl-extra-group-"):
        (shared / f"{name}0123456789ab").symlink_to(precious)
    (precious / owned_folder.LOCK).write_text(socket.gethostname())  # a folder as those that go
    sweep()
    owned_folder.remove_unused(str(shared / "akdl-extra-group-0123456789ab"))
    assert (precious / "file").read_text() == "mine"


def test_work_folders_are_made_anew_and_never_found(shared: pathlib.Path, precious: pathlib.Path) -> None:
    """So a link is in the way of none; it would have to guess a name of 48 random bits."""
    (shared / "akdl-").symlink_to(precious)
    folder = WorkFolder(())
    try:
        assert os.path.dirname(folder.path) == str(shared) and os.lstat(folder.path).st_mode & 0o777 == 0o700
    finally:
        folder.remove()
    assert os.listdir(precious) == ["file"]


def test_a_link_that_takes_the_place_of_a_folder_just_now_is_refused(
    shared: pathlib.Path, precious: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of a stranger goes as it is looked at, and a link comes."""
    path = shared / "akdl-extra-group-0"
    path.mkdir()
    check = shared_folder.is_private_folder

    def swap_and_check(folder: str) -> bool:
        monkeypatch.setattr(shared_folder, "is_private_folder", check)
        path.rmdir()
        try:
            return check(folder)
        finally:
            path.symlink_to(precious)

    monkeypatch.setattr(shared_folder, "is_private_folder", swap_and_check)
    with pytest.raises(ChannelError, match="is not a folder that only this user can access"):
        files_in(str(path))
    assert os.listdir(precious) == ["file"]
