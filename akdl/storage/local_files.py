"""Files on disks of this host: readable by this user alone, complete once they have their name, and
with errors that name what a full disk lacks.

Rows and sockets are stored below /tmp on many hosts, where another user may have made a folder or a
link of the same name beforehand. A folder is therefore tested before anything is created in it.

Processes of a host read each other's files (addresses, statuses, stalled rows) at any moment, so a
file that grows in its place would be read in part.

The error of a full disk names the folder, its size, the free space and the remedy, because the
system's own error names neither the disk nor the bytes.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import pwd
import secrets
import stat
from typing import IO, Callable

ENDING = ".incomplete"


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


class WholeFile:
    """Replaces a file once the new content is complete; after an error the old content stays.

    Until then the file has a random name, which must be new: another user could have prepared a
    link of a fixed name, through which the content would overwrite another file.
    """

    def __init__(self, path: str, opener: Callable[[str, int], int] | None = None) -> None:
        self._path = path
        self.file = open(f"{path}.{secrets.token_hex(8)}{ENDING}", "xb", opener=opener)

    def finish(self) -> None:
        self.file.close()
        # `replace` is atomic, so a reader finds either the old content or the new one.
        os.replace(self.file.name, self._path)

    def abandon(self) -> None:
        self.file.close()
        os.unlink(self.file.name)

    def __enter__(self) -> IO[bytes]:
        return self.file

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is None:
            self.finish()
        else:
            self.abandon()


def write_all(file: io.RawIOBase, data: bytes | memoryview) -> None:
    """Write all of the data to an unbuffered file, which may accept a part of it at a time."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def free_bytes(folder: str) -> int:
    disk = os.statvfs(folder)
    # `f_bavail` leaves out the blocks that are reserved for root, which `f_bfree` counts.
    return disk.f_bavail * disk.f_frsize


def write_at(path: str, place: int, data: bytes | memoryview) -> None:
    """Write to a file from a position on, replacing what a failed write has left there.

    Appending would put the rows of a second attempt behind the part that the first one wrote.

    Raises:
        OSError: With sizes and a remedy for a full disk or quota, otherwise the system's own error.
    """
    try:
        with open(path, "r+b" if place else "wb", buffering=0, opener=private) as file:
            file.seek(place)
            write_all(file, data)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise no_room(error, os.path.dirname(path), len(data)) from None
        raise


def no_room(error: OSError, folder: str, wanted: int) -> OSError:
    held = 0
    for name in os.listdir(folder):
        # Another thread may remove a file meanwhile, which must not replace the error of the disk.
        with contextlib.suppress(OSError):
            held += os.path.getsize(os.path.join(folder, name))
    sizes = f"holds {held / 1e6:.1f} MB, {free_bytes(folder) / 1e6:.1f} MB are free"
    return OSError(
        error.errno,
        f"{error.strerror}: {folder} {sizes}, and the next rows need {wanted / 1e6:.1f} MB. Free"
        " some space there, or set Flink's io.tmp.dirs (else TMPDIR) to folders on larger disks;"
        " dataset_file takes about four times the bytes of what batches() reads",
    )
