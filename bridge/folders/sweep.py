"""Removal of leftovers of killed processes whenever a process of ours starts: locks and pipes show what is still used."""

from __future__ import annotations

import functools
import glob
import logging
import os
from contextlib import suppress

from akdl.folders import owned_folder
from akdl.folders.file_lock import try_lock
from bridge.exceptions import ConfigurationError
from bridge.folders.process_folder import ProcessFolder
from bridge.folders.remover import remove_when_unlocked
from bridge.folders.user_folders import environment_place, environments_path, model_place, models_path

logger = logging.getLogger(__name__)


def sweep(place: str | None = None) -> None:
    """Remove unused folders of scripts (also in `place`), models, environments and programs. Never fails."""
    sweep_place = functools.partial(owned_folder.sweep, place)
    for clean in (owned_folder.sweep, sweep_place, _sweep_environments, _sweep_models):
        try:
            clean()
        except (OSError, ConfigurationError) as error:
            logger.info("cannot look for folders of killed processes: %s", error)


def _sweep_environments() -> None:
    if not os.path.lexists(environments_path()):
        return
    for path in glob.glob(os.path.join(glob.escape(environment_place()), "*.lock")):
        with suppress(OSError), open(path, "rb+") as lock:
            if try_lock(lock.fileno()):
                remove_when_unlocked(path[: -len(".lock")])


def _sweep_models() -> None:
    """Remove the folders of model processes that were killed, and of tasks that were killed before they had started one."""
    if not os.path.lexists(models_path()):
        return
    for name in os.listdir(model_place()):
        ProcessFolder(name).remove_unused()
