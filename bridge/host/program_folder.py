"""The folder of this program for files that wait to be used by its jobs.

It has packed files and models, Java's temporary files, and rows of tables in memory. One that a
killed program has left is removed by the next program of the user.

A folder is usually removed by its last user or by a small process. `sweep` finds the rest whenever
a process of ours starts, after both were killed. Locks and pipes show which folders are in use.
"""

from __future__ import annotations

import functools
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from akdl.storage import locked_folder
from akdl.storage.files import sha256_of
from akdl.storage.locked_folder import OwnedFolder
from bridge.exceptions import ConfigurationError
from bridge.host.places import (
    environment_place,
    environments_path,
    model_place,
    models_path,
)
from bridge.host.process_folder import ProcessFolder


@functools.cache
def program_folder() -> str:
    """Path of the folder, which is made on the first call and removed at exit."""
    sweep()
    return OwnedFolder("akdl_packed_").path


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
    named = f"{program_folder()}/akdl_{kind}_{sha256[:32]}"
    if path.startswith(program_folder() + os.sep):
        os.replace(path, named)
    elif not os.path.lexists(named) or os.path.realpath(named) != os.path.realpath(path):
        # The link is made under another name, because a rename replaces an earlier link in one
        # step.
        link = f"{named}.new"
        os.symlink(os.path.abspath(path), link)
        os.replace(link, named)
    return named, sha256


logger = logging.getLogger(__name__)


def sweep(place: str | None = None) -> None:
    """Remove unused folders of scripts (also in `place`), models, environments and programs. Never
    fails.
    """

    def sweep_places() -> None:
        for each in {tempfile.gettempdir(), place or tempfile.gettempdir()}:
            locked_folder.sweep(each)

    for clean in (sweep_places, _sweep_environments, _sweep_models):
        try:
            clean()
        # Leftovers of other jobs must not keep this one from starting.
        except (OSError, ConfigurationError) as error:
            logger.info("cannot look for folders of killed processes: %s", error)


def _sweep_environments() -> None:
    if os.path.lexists(environments_path()):
        locked_folder.sweep(environment_place(), "")


def _sweep_models() -> None:
    """Remove the folders of model processes that were killed, and of tasks that were killed before
    they had started one.
    """
    if os.path.lexists(models_path()):
        for name in os.listdir(model_place()):
            ProcessFolder(name).remove_unused()
