"""The folder of this program for files that wait to be used by its jobs."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from akdl.folders.locked_folder import OwnedFolder
from akdl.storage.files import sha256_of
from bridge.folders.sweep import sweep


@functools.cache
def program_folder() -> str:
    sweep()
    folder = OwnedFolder("akdl_packed_")
    folder.remove_at_exit()
    return folder.path


@contextmanager
def scratch_folder(prefix: str = "") -> Iterator[str]:
    """Folder in it for the duration of a block; what cannot be removed stays until the program ends."""
    folder = tempfile.mkdtemp(prefix=prefix, dir=program_folder())
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def named_by_content(path: str, kind: str) -> tuple[str, str]:
    """Give a file a path named by its content, for `bridge.folders.shipped`: moved within the program's folder, else linked."""
    sha256 = sha256_of(path)
    named = os.path.join(program_folder(), f"akdl_{kind}_{sha256[:32]}")
    if path.startswith(program_folder() + os.sep):
        os.replace(path, named)
    elif not os.path.lexists(named) or os.path.realpath(named) != os.path.realpath(path):
        link = f"{named}.new"
        os.symlink(os.path.abspath(path), link)
        os.replace(link, named)
    return named, sha256
