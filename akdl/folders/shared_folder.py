"""A folder shared by processes of one host: created by the first, used under its lock, removed with the lock last."""

import contextlib
import fcntl
import os
import shutil
from typing import Iterator

from akdl.folders.file_lock import is_linked, try_lock
from akdl.folders.private_file import is_private_folder, not_private

_LOCK = "lock"


def lock_of(folder: str, name: str = _LOCK, shared: bool = False) -> int:
    """Lock a folder, which is created if needed, until the returned descriptor is closed; other users must not read it."""
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        try:
            if not is_private_folder(folder):  # before creating anything in it
                raise PermissionError(f"{folder} {not_private(folder)}")
            lock = os.open(os.path.join(folder, name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # removed meanwhile
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        except BaseException:
            os.close(lock)
            raise
        if is_linked(lock):
            return lock
        os.close(lock)


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    lock = lock_of(folder)
    try:
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def try_locked(folder: str) -> Iterator[bool]:
    """Yield True while holding the lock of an existing folder; False if the lock is taken or the folder is missing."""
    try:
        lock = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):  # not yet created, or just removed
        yield False
        return
    try:
        yield try_lock(lock) and is_linked(lock)
    finally:
        os.close(lock)


def remove(folder: str) -> None:
    # The lock goes last. Without it another process could create a new lock and use a folder that is being emptied.
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        elif name != _LOCK:
            with contextlib.suppress(FileNotFoundError):  # an ending process removes its socket
                os.remove(path)
    os.remove(os.path.join(folder, _LOCK))
    with contextlib.suppress(OSError):  # not empty: another process uses it again
        os.rmdir(folder)


def wait_and_remove(folder: str) -> None:
    """Remove a folder once its lock is free; leave it if another process has removed or recreated it meanwhile."""
    with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, _LOCK), "rb") as lock:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX)
        if is_linked(lock.fileno()):
            remove(folder)
