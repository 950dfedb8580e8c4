"""Folders are removed when their last user has ended."""

from __future__ import annotations

import fcntl
import os
import pathlib

import pytest

from bridge.folders.remover import remove_when_closed, remove_when_unlocked
from tests.support.leftovers import wait_until

pytestmark = pytest.mark.process


def test_a_folder_goes_with_the_last_copy_of_its_descriptor(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "folder"
    (folder / "inner").mkdir(parents=True)
    first = remove_when_closed(str(folder))
    second = os.dup(first)
    os.close(first)
    assert folder.exists()
    os.close(second)
    wait_until(lambda: not folder.exists(), "the folder is removed")


def test_a_folder_goes_when_its_lock_is_free(tmp_path: pathlib.Path) -> None:
    folder, path = tmp_path / "folder", tmp_path / "folder.lock"
    folder.mkdir()
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        remove_when_unlocked(str(folder))
        assert folder.exists()
    wait_until(lambda: not folder.exists() and not path.exists(), "the folder and its lock are removed")
