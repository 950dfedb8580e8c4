"""Folders are removed when their last user has ended."""

from __future__ import annotations

import os
import pathlib

import pytest

from akdl.storage.locked_folder import hold
from bridge.host.work_folder import remove_when_unlocked
from tests.support.leftovers import wait_until

pytestmark = pytest.mark.process


@pytest.mark.parametrize("shared", [True, False])
def test_folder_is_removed_with_the_last_copy_of_its_descriptor(
    shared: bool, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "folder"
    first = hold(str(folder), shared)
    (folder / "inner").mkdir(parents=True)
    remove_when_unlocked(str(folder))
    second = os.dup(first)
    os.close(first)
    assert folder.exists()
    os.close(second)
    wait_until(lambda: not list(tmp_path.iterdir()), "the folder is removed")


def test_folder_is_removed_when_all_holders_of_its_lock_have_ended(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "folder"
    users = [hold(str(folder)), hold(str(folder))]
    remove_when_unlocked(str(folder))
    os.close(users[0])
    assert folder.exists()
    os.close(users[1])
    wait_until(lambda: not list(tmp_path.iterdir()), "the folder and its lock are removed")
