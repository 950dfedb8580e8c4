"""Files and folders that only this user can access, whatever the program's umask is.

Rows and sockets are stored below /tmp on many hosts, where another user may have made a folder or a
link of the same name beforehand. A folder is therefore tested before anything is created in it.
"""

import contextlib
import os
import pwd
import stat


def private(path: str, flags: int) -> int:
    """Opener for `open(..., opener=private)`: new files are readable by this user only."""
    # The mode counts for a new file alone. An existing one that is opened for writing gets it too.
    fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
    # A file that is opened for reading alone keeps its mode, because it may be a user's.
    if flags & os.O_CREAT:
        os.fchmod(fd, 0o600)
    return fd


def is_private_folder(path: str) -> bool:
    """Test if a path is a real folder, not a link, that only this user can access."""
    return not _openness(path)


def not_private(path: str) -> str:
    return (
        f"is not a folder that only this user can access: it {_openness(path)}. Remove it, or ask"
        " an administrator to"
    )


def _openness(path: str) -> str:
    # `lstat` and not `stat`, because a link of another user could lead to a folder of this user.
    status = os.lstat(path)
    if status.st_uid != os.geteuid():
        name = str(status.st_uid)
        with contextlib.suppress(KeyError):
            name = f"{pwd.getpwuid(status.st_uid).pw_name} ({name})"
        return f"belongs to user {name}"
    if not stat.S_ISDIR(status.st_mode):
        return "is a link" if stat.S_ISLNK(status.st_mode) else "is a file"
    return (
        f"has the mode {stat.S_IMODE(status.st_mode):04o}, expected 0700"
        if status.st_mode & 0o077
        else ""
    )
