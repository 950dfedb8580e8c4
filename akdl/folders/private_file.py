"""Files that only this user may read, with any umask of this program, and folders that only this user may enter."""

import contextlib
import os
import pwd
import stat


def private(path: str, flags: int) -> int:
    """Open a file for `open(..., opener=private)`: a new one can be read by this user alone."""
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    if flags & os.O_CREAT:
        os.fchmod(fd, 0o600)
    return fd


def is_private_folder(path: str) -> bool:
    """Whether there is a folder at a path, and not a link to one, that belongs to this user alone."""
    return not _openness(path)


def not_private(path: str) -> str:
    """Describe the fault of a folder that `is_private_folder` refuses, and the remedy, as text to follow its path."""
    return f"is not a folder that only this user can access: it {_openness(path)}. Remove it, or let an administrator do it"


def _openness(path: str) -> str:
    status = os.lstat(path)
    if status.st_uid != os.geteuid():
        name = str(status.st_uid)
        with contextlib.suppress(KeyError):
            name = f"{pwd.getpwuid(status.st_uid).pw_name} ({name})"
        return f"belongs to user {name}"
    if not stat.S_ISDIR(status.st_mode):
        return "is a link" if stat.S_ISLNK(status.st_mode) else "is a file"
    return f"has the mode {stat.S_IMODE(status.st_mode):04o}, expected 0700" if status.st_mode & 0o077 else ""
