from __future__ import annotations

import concurrent.futures
import itertools
import os
import pathlib
import threading

import pytest

from akdl.folders import shared_folder


def test_the_lock_is_removed_last(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "shared"
    removed: list[tuple[str, list[str]]] = []
    remove = os.remove

    def recorded(path: str) -> None:
        removed.append((os.path.basename(path), sorted(os.listdir(folder))))
        remove(path)

    monkeypatch.setattr(os, "remove", recorded)
    with shared_folder.locked(str(folder)):
        (folder / "a").touch()
        (folder / "z").touch()
        (folder / "inner").mkdir()
        (folder / "inner" / "lock").touch()
        (folder / "link").symlink_to(tmp_path)
        shared_folder.remove(str(folder))
    assert removed[-1] == ("lock", ["lock"])
    assert not folder.exists() and tmp_path.exists()


@pytest.mark.process
def test_what_one_user_keeps_in_the_folder_no_other_removes(tmp_path: pathlib.Path) -> None:
    folder, done = str(tmp_path / "shared"), threading.Event()
    users, seen = itertools.count(), itertools.count()

    def use() -> None:
        while next(users) < 300:
            with shared_folder.locked(folder):
                marks = [pathlib.Path(folder, f"mark{number}") for number in range(8)]
                assert not any(mark.exists() for mark in marks), "the folder is one that is being removed"
                for mark in marks:
                    mark.touch()
                assert all(mark.exists() for mark in marks), "somebody removed it meanwhile"
                if next(seen) % 2:
                    shared_folder.remove(folder)
                else:
                    for mark in marks:
                        mark.unlink()

    def remove() -> None:
        while not done.is_set():
            with shared_folder.try_locked(folder) as is_ours:
                if is_ours:
                    shared_folder.remove(folder)
            shared_folder.wait_and_remove(folder)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        removers = [pool.submit(remove) for _ in range(2)]
        try:
            for user in [pool.submit(use) for _ in range(2)]:
                user.result()
        finally:
            done.set()
        for remover in removers:
            remover.result()
