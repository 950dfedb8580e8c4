"""Removal of leftovers of killed processes on this host, whenever a process of ours starts.

Locks, and pipes with a reader, show what is still used. Age does not matter.
"""

from __future__ import annotations

import functools
import logging
import os

from akdl.folders import owned_folder, shared_folder
from bridge.exceptions import ConfigurationError
from bridge.folders.work_folder import private_folder, user_place
from bridge.host.interpreter import sweep_environments

logger = logging.getLogger(__name__)

PIPE = "alive"  # in the folder of a model process, which reads it


def sweep(place: str | None = None) -> None:
    """Remove unused folders of scripts (also in `place`), models, environments and programs.

    Never fails: an obstacle here does not concern the process that starts, or is reported elsewhere.
    """
    sweep_place = functools.partial(owned_folder.sweep, place)
    for clean in (owned_folder.sweep, sweep_place, sweep_environments, _sweep_models):
        try:
            clean()
        except (OSError, ConfigurationError) as error:
            logger.info("cannot look for folders of killed processes: %s", error)


def _sweep_models() -> None:
    """Remove the folders of model processes that were killed, and of tasks that were killed before they had started one."""
    if not os.path.lexists(_models()):
        return
    place = model_place()
    for name in os.listdir(place):
        remove_unused(os.path.join(place, name))


def model_place() -> str:
    """Folder with the folders of model processes. Its name is short, as the path of a unix socket has to be."""
    return private_folder(_models(), "model processes")


def _models() -> str:
    return user_place(f"akdl_models_{os.geteuid()}")


def has_process(folder: str) -> bool:
    try:
        os.close(os.open(os.path.join(folder, PIPE), os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def remove_unused(folder: str) -> None:
    """Remove the folder of a model process that was killed, unless a task is about to join or to start another one."""
    with shared_folder.try_locked(folder) as is_ours:
        if is_ours and not has_process(folder):
            shared_folder.remove(folder)
