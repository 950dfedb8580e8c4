"""Temporary folders that are removed even when their owner was killed: the next start removes folders whose lock is free.

A lock counts only on the host whose name is in it, as file systems shared by hosts may not propagate locks.
"""

import atexit
import contextlib
import os
import shutil
import socket
import tempfile
import uuid
from typing import Optional

from akdl.folders.file_lock import is_linked, try_lock
from akdl.folders.shared_folder import lock_of

PREFIXES = ("akdl-", "akdl_packed_", "akdl_local_")
LOCK = ".akdl-lock"


class OwnedFolder:
    """A new folder below the temporary folder, accessible to this user only; it stays while a process holds the lock `fd`."""

    def __init__(self, prefix: str, place: Optional[str] = None) -> None:
        self.path = os.path.join(place or tempfile.gettempdir(), f"{prefix}{uuid.uuid4().hex[:12]}")
        try:
            self.fd = hold(self.path, shared=False)
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise

    def remove_at_exit(self) -> None:
        atexit.register(self._remove_in, os.getpid())

    def _remove_in(self, pid: int) -> None:
        if os.getpid() == pid:  # a forked process may end earlier
            self.remove()

    def remove(self) -> None:
        atexit.unregister(self._remove_in)
        if self.fd >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self.fd)
            self.fd = -1


def hold(folder: str, shared: bool = True) -> int:
    """Create a folder if needed, and hold it until the returned descriptor is closed; `shared` with other processes."""
    lock = lock_of(folder, LOCK, shared)
    try:
        os.pwrite(lock, socket.gethostname().encode(), 0)
    except BaseException:
        os.close(lock)
        raise
    return lock


def sweep(place: Optional[str] = None) -> None:
    """Remove this user's folders on this host whose owners ended without removing them."""
    place = place or tempfile.gettempdir()
    for name in os.listdir(place):
        if name.startswith(PREFIXES):
            remove_unused(os.path.join(place, name))


def remove_unused(folder: str) -> None:
    """Remove a folder of this user and host whose lock is free, if it exists."""
    with contextlib.ExitStack() as closing:
        try:
            lock = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:  # another user's, not a folder, or removed
            return
        closing.callback(os.close, lock)
        is_own = os.fstat(lock).st_uid == os.geteuid() and os.read(lock, 1000) == socket.gethostname().encode()
        if is_own and try_lock(lock) and is_linked(lock):
            shutil.rmtree(folder, ignore_errors=True)
