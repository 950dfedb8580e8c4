"""The folder of this program for files that wait to be used by its jobs.

It has packed files and models, Java's temporary files, and rows of tables in memory. One that a
killed program has left is removed by the next program of the user.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from akdl.storage.files import sha256_of
from akdl.storage.locked_folder import OwnedFolder
from bridge.folders.sweep import sweep


@functools.cache
def program_folder() -> str:
    """Path of the folder, which is made on the first call and removed at exit."""
    sweep()
    folder = OwnedFolder("akdl_packed_")
    return folder.path


@contextmanager
def scratch_folder(prefix: str = "") -> Iterator[str]:
    """Folder in it for the duration of a block; what cannot be removed stays until the program
    ends.
    """
    folder = tempfile.mkdtemp(prefix=prefix, dir=program_folder())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def named_by_content(path: str, kind: str) -> tuple[str, str]:
    """Give a file a path named by its content, and return the path and the SHA-256.

    Files travel through Flink by their names, so equal files travel once, and a changed file cannot
    be taken for an earlier one. A file in the program's folder is moved, any other one is linked.
    """
    sha256 = sha256_of(path)
    named = os.path.join(program_folder(), f"akdl_{kind}_{sha256[:32]}")
    if path.startswith(program_folder() + os.sep):
        os.replace(path, named)
    elif not os.path.lexists(named) or os.path.realpath(named) != os.path.realpath(path):
        # The link is made under another name, because a rename replaces an earlier link in one
        # step.
        link = f"{named}.new"
        os.symlink(os.path.abspath(path), link)
        os.replace(link, named)
    return named, sha256
