"""Folders with a lock: used by one process or by several, and removed once no process holds the
lock.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading

import pytest

from akdl.storage import locked_folder
from tests.support.deadline import DEADLINE_S

PROGRAM = """
import os, sys
from akdl.storage.locked_folder import OwnedFolder

folder = OwnedFolder("akdl_local_", sys.argv[1])
child = os.fork()
if child == 0:
    sys.exit()
os.waitpid(child, 0)
print(os.path.exists(folder.path))
"""


@pytest.mark.process
def test_locked_folder_is_removed_by_its_program_and_not_by_a_fork(tmp_path: pathlib.Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True
    )
    assert run.stdout == "True\n", run.stderr
    assert os.listdir(tmp_path) == []


def test_a_folder_without_users_is_removed_whole(tmp_path: pathlib.Path) -> None:
    folder, precious = tmp_path / "shared", tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    os.close(locked_folder.hold(str(folder)))
    (folder / "inner").mkdir()
    (folder / "inner" / locked_folder.LOCK).touch()
    (folder / "link").symlink_to(precious)
    locked_folder.remove_unused(str(folder))
    assert os.listdir(tmp_path) == ["precious"] and (precious / "file").exists()


def test_lock_file_is_removed_when_the_others_have_gone(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rmtree, left = tmp_path / "shared", shutil.rmtree, []
    os.close(locked_folder.hold(str(folder)))
    for name in ("alive", "log"):
        (folder / name).touch()

    def seen(path: str, ignore_errors: bool) -> None:
        left.append(os.listdir(path))
        rmtree(path, ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", seen)
    locked_folder.remove_unused(str(folder))
    assert left == [[locked_folder.LOCK]] and os.listdir(tmp_path) == []


def test_sweep_removes_a_folder_whose_removal_was_interrupted(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "akdl_local_1"
    os.close(locked_folder.hold(str(folder)))
    (folder / "work").mkdir()

    def interrupted(path: str, ignore_errors: bool) -> None:
        pathlib.Path(path, locked_folder.LOCK).unlink(missing_ok=True)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            locked_folder.remove_unused(str(folder))
    assert len(os.listdir(tmp_path)) == 1
    locked_folder.sweep(str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_a_folder_in_use_stays(tmp_path: pathlib.Path) -> None:
    folder = str(tmp_path / "shared")
    users = [locked_folder.hold(folder), locked_folder.hold(folder)]
    for user in users:
        locked_folder.remove_unused(folder)
        assert os.path.isdir(folder)
        os.close(user)
    locked_folder.remove_unused(folder, is_used=lambda: True)
    assert os.path.isdir(folder)
    (pathlib.Path(folder) / locked_folder.LOCK).write_text(f"not-{socket.gethostname()}")
    locked_folder.remove_unused(folder)
    assert os.path.isdir(folder), "another host may use it"


def test_a_folder_that_was_removed_while_its_lock_was_awaited_is_made_again(
    tmp_path: pathlib.Path,
) -> None:
    folder = str(tmp_path / "shared")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        with locked_folder.locked(folder):
            late = pool.submit(locked_folder.hold, folder)
            pathlib.Path(folder, "mark").touch()
            locked_folder.remove(folder)
        os.close(late.result(DEADLINE_S))
    assert os.listdir(folder) == [locked_folder.LOCK]


@pytest.mark.process
def test_files_of_one_user_of_a_folder_are_not_removed_by_another(tmp_path: pathlib.Path) -> None:
    folder, done = str(tmp_path / "shared"), threading.Event()
    users, seen = itertools.count(), itertools.count()

    def use() -> None:
        while next(users) < 300:
            with locked_folder.locked(folder):
                marks = [pathlib.Path(folder, f"mark{number}") for number in range(8)]
                assert not any(mark.exists() for mark in marks), (
                    "the folder is one that is being removed"
                )
                for mark in marks:
                    mark.touch()
                assert all(mark.exists() for mark in marks), "somebody removed it meanwhile"
                if next(seen) % 2:
                    locked_folder.remove(folder)
                else:
                    for mark in marks:
                        mark.unlink()

    def remove() -> None:
        while not done.is_set():
            locked_folder.remove_unused(folder)
            locked_folder.remove_unused(folder, waits=True)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        removers = [pool.submit(remove) for _ in range(2)]
        try:
            for user in [pool.submit(use) for _ in range(2)]:
                user.result()
        finally:
            done.set()
        for remover in removers:
            remover.result()
