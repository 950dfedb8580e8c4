"""Removal of leftovers of killed processes, whenever a process of ours starts.

A folder is usually removed by its last user or by a small process. This finds the rest, after both
were killed. Locks and pipes show which folders are in use.
"""

from __future__ import annotations

import logging
import os
import tempfile

from akdl.storage import locked_folder
from bridge.exceptions import ConfigurationError
from bridge.folders.process_folder import ProcessFolder
from bridge.folders.user_folders import (
    environment_place,
    environments_path,
    model_place,
    models_path,
)

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
