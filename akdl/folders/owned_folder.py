"""Temporary folders that go even when their owner was killed: each has a lock, and the next start removes the unlocked ones.

A lock counts on the host whose name is in it only, as file systems that hosts share may not pass locks on.
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
    """A new folder below the one for temporary files, for this user alone. It goes with `remove`, or with the next `sweep`.

    Args:
        place: Where it is made; the system's place for temporary files by default.

    Attributes:
        fd: Descriptor of the lock. As long as a process has it, the folder stays.
    """

    def __init__(self, prefix: str, place: Optional[str] = None) -> None:
        while True:
            self.path = os.path.join(place or tempfile.gettempdir(), f"{prefix}{uuid.uuid4().hex[:12]}")
            os.mkdir(self.path, 0o700)
            try:
                self.fd = os.open(os.path.join(self.path, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except FileNotFoundError:  # somebody cleans up there
                continue
            except OSError:
                os.rmdir(self.path)
                raise
            if try_lock(self.fd) and is_linked(self.fd):
                break
            os.close(self.fd)  # a sweeper was faster
        try:
            os.write(self.fd, socket.gethostname().encode())
        except OSError:
            self.remove()
            raise

    def remove_at_exit(self) -> None:
        """Let the folder go at the latest when this program ends, also where nobody calls `remove`."""
        atexit.register(self._remove_in, os.getpid())

    def _remove_in(self, pid: int) -> None:
        if os.getpid() == pid:  # a forked process ends earlier
            self.remove()

    def remove(self) -> None:
        """Delete the folder and all in it. Safe to call twice."""
        atexit.unregister(self._remove_in)
        if self.fd >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self.fd)
            self.fd = -1


def hold(folder: str) -> int:
    """Make a folder that processes of this host share, if need be, and hold it.

    Returns:
        The descriptor of its lock. As long as one is open, the folder stays.

    Raises:
        PermissionError: Somebody else has made the folder, or could look into it.
    """
    lock = lock_of(folder, LOCK, shared=True)
    os.pwrite(lock, socket.gethostname().encode(), 0)
    return lock


def sweep(place: Optional[str] = None) -> None:
    """Remove the folders of this user and host whose owners have ended without removing them.

    Args:
        place: Where they are; the system's place for temporary files by default.
    """
    place = place or tempfile.gettempdir()
    for name in os.listdir(place):
        if name.startswith(PREFIXES):
            remove_unused(os.path.join(place, name))


def remove_unused(folder: str) -> None:
    """Remove a folder of this user and host whose lock nobody holds, if there is such a folder."""
    with contextlib.ExitStack() as closing:
        try:
            lock = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:  # of another user, of another kind, or gone
            return
        closing.callback(os.close, lock)
        is_own = os.fstat(lock).st_uid == os.geteuid() and os.read(lock, 1000) == socket.gethostname().encode()
        if is_own and try_lock(lock) and is_linked(lock):
            shutil.rmtree(folder, ignore_errors=True)
