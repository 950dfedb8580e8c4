"""Files that grow, on disks that may be full: who finds no room says where, how much there is, and what to do."""

import errno
import io
import os
from typing import Union

from akdl.folders.private_file import private


def write_all(file: io.RawIOBase, data: Union[bytes, memoryview]) -> None:
    """Write to an unbuffered file, which may take a part only."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def free_bytes(folder: str) -> int:
    """Return how many bytes this user may still write to the disk of a folder."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def write_at(path: str, place: int, data: Union[bytes, memoryview]) -> None:
    """Write to a file from a place on, where nothing is but what an error has left.

    Raises:
        OSError: There is no room for them; it says how much, and what to do.
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
    """Return the error that says what lies in a folder, and what to do."""
    held = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
    sizes = f"holds {held / 1e6:.1f} MB, {free_bytes(folder) / 1e6:.1f} MB are free"
    return OSError(
        error.errno,
        f"{error.strerror}: {folder} {sizes}, and the next rows need {wanted / 1e6:.1f} MB. Make room there, "
        "or set Flink's io.tmp.dirs (else TMPDIR) to folders on larger disks; dataset_file takes about four times the "
        "bytes of what batches() reads",
    )
