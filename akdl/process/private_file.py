"""Files that only this user may read, with any umask of this program, and folders that only this user may enter."""

import os
import stat


def private(path: str, flags: int) -> int:
    """Open a file for `open(..., opener=private)`: a new one can be read by this user alone."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    if flags & os.O_CREAT:
        os.fchmod(fd, 0o600)
    return fd


def is_private_folder(path: str) -> bool:
    """Whether there is a folder at a path, and not a link to one, that belongs to this user alone.

    Raises:
        FileNotFoundError: There is nothing.
    """
    status = os.lstat(path)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
