"""Files that only this user may read, with any umask of this program."""

import os


def private(path: str, flags: int) -> int:
    """Open a file for `open(..., opener=private)`: a new one can be read by this user alone."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    if flags & os.O_CREAT:
        os.fchmod(fd, 0o600)
    return fd
