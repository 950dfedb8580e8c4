"""Folders that are used as long as a process holds their lock, and removed once no process does,
however the processes ended.

There is one lifetime for all of them: work folders, unpacked environments, folders of model
processes, and caches. The lock is a file in the folder, which a process holds alone or shares with
others. The kernel releases it when the process ends, also by SIGKILL. So a folder whose lock is
free can be removed: by its last user, by a small process that waits for the lock
(`bridge.host.work_folder`), or by `sweep` when the next process starts. A folder is renamed before
it is removed, because another process may create it again at any moment.

A lock counts only on the host whose name is in it, because file systems that hosts share may not
propagate locks.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import socket
import tempfile
import uuid
from typing import Callable, Iterator

from akdl.storage.local_files import is_private_folder, not_private

# Prefixes of the folders in a folder for temporary files that `sweep` may remove.
PREFIXES = ("akdl-", "akdl_packed_", "akdl_local_")
LOCK = ".akdl-lock"


class OwnedFolder:
    """A new folder below the temporary folder, accessible to this user only.

    It is removed at the exit of this process. With `at_exit` False, another process has to remove
    it. It stays while a process holds the lock `fd`. Child processes that inherit the descriptor
    hold the lock too, so the folder outlives this process if they still use it.
    """

    def __init__(self, prefix: str, place: str | None = None, at_exit: bool = True) -> None:
        self.path = os.path.join(place or tempfile.gettempdir(), f"{prefix}{uuid.uuid4().hex[:12]}")
        try:
            self.fd = hold(self.path, shared=False)
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        if at_exit:
            atexit.register(self._remove_in, os.getpid())

    def _remove_in(self, pid: int) -> None:
        # A forked process has the same exit handlers, and may end earlier.
        if os.getpid() == pid:
            self.remove()

    def remove(self) -> None:
        atexit.unregister(self._remove_in)
        if self.fd >= 0:
            # The folder is removed while the lock is held, because another process may take a
            # folder with a free lock for an abandoned one.
            remove(self.path)
            os.close(self.fd)
            self.fd = -1


def hold(folder: str, shared: bool = True) -> int:
    """Create a folder if needed, and lock it until the returned descriptor and its copies in other
    processes are closed.

    Raises:
        PermissionError: Other users can read the folder, or it belongs to one of them.
    """
    # Another process may remove the folder between any two steps, so the steps are repeated until
    # the lock is held and its file is still in the folder.
    path = os.path.join(folder, LOCK)
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        try:
            # The folder is tested before anything is created in it, because another user may have
            # made it, or a link of its name.
            if not is_private_folder(folder):
                raise PermissionError(f"{folder} {not_private(folder)}")
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:  # removed meanwhile
            continue
        with contextlib.ExitStack() as closing:
            closing.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
            if _is_at(lock, path):
                # Holders of a shared lock write the same name of this host, so it does not matter
                # which of them writes last.
                os.pwrite(lock, socket.gethostname().encode(), 0)
                closing.pop_all()
                return lock


@contextlib.contextmanager
def locked(folder: str) -> Iterator[None]:
    """Hold a folder alone for the duration of a block; other processes wait."""
    lock = hold(folder, shared=False)
    try:
        yield
    finally:
        os.close(lock)


def sweep(place: str, prefix: str | tuple[str, ...] = PREFIXES) -> None:
    """Remove this user's folders on this host whose owners ended without removing them.

    Called when a process starts. Owners that were killed, with the small process that waits for
    their lock, have no other way to have their folders removed.
    """
    for name in os.listdir(place):
        if name.startswith(prefix):
            remove_unused(os.path.join(place, name))


def remove_unused(
    folder: str, waits: bool = False, is_used: Callable[[], bool] = lambda: False
) -> None:
    """Remove a folder of this user and host, if it exists and its lock is free.

    Args:
        folder: A path that another user may have made.
        waits: Wait until the lock is free, instead of leaving the folder.
        is_used: A further condition, tested under the lock.
    """
    path = os.path.join(folder, LOCK)
    with contextlib.ExitStack() as closing:
        try:
            if not is_private_folder(folder):  # another user's, or a link
                return
            # Without O_CREAT, so that a folder of another program, which has no lock file, is left
            # alone.
            lock = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:  # not a folder of this kind, or removed meanwhile
            return
        closing.callback(os.close, lock)
        # On a shared file system the owner may be alive on another host, whose lock is not seen
        # here.
        if os.read(lock, 1000) != socket.gethostname().encode():
            return
        if waits:
            fcntl.flock(lock, fcntl.LOCK_EX)
        # After the wait this process has the lock already, and taking it again through the same
        # descriptor succeeds.
        if try_lock(lock) and _is_at(lock, path) and not is_used():
            remove(folder)


def remove(folder: str) -> None:
    """Remove a folder that this process holds alone, if it exists.

    It is renamed first: a thread that writes a file meanwhile, such as the last status, would keep
    the folder from being removed when the lock is gone already.
    """
    removed = f"{folder}-{uuid.uuid4().hex[:12]}"
    with contextlib.suppress(OSError):
        os.rename(folder, removed)
        # The lock file goes last. Without it, a folder whose removal is killed would stay.
        for entry in list(os.scandir(removed)):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            elif entry.name != LOCK:
                os.remove(entry.path)
        shutil.rmtree(removed, ignore_errors=True)


def _is_at(lock: int, path: str) -> bool:
    """Test if an open lock file still has its path: the folder may have been removed while we
    waited for the lock.
    """
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(lock), os.stat(path))
    return False


def try_lock(fd: int) -> bool:
    """Lock a file that programs of one host share, if it is free.

    The kernel releases a lock when its holder ends, however it ends, so no lock is left behind.

    `flock` and not `fcntl`, because locks of `fcntl` belong to the process: two descriptors of one
    process would not conflict, and closing one of them would release the lock of the other.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
