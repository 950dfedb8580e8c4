"""Growing files on disks that may be full.

The error names the folder, its size, the free space and the remedy, because the system's own error
names neither the disk nor the bytes.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os

from akdl.folders.private_file import private


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
