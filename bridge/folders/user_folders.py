"""Folders that all programs of one user on this host share, and no other user can read.

Their names are known, so that programs find them, and another user may take such a name in /tmp
first. The user's cache has the folder then: otherwise that would stop all jobs of this user.
"""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile

from akdl.storage.local_files import is_private_folder, not_private
from bridge.exceptions import ConfigurationError


def model_place() -> str:
    """Folder with the folders of model processes. Its name is short, as the path of a unix socket
    has to be.
    """
    return private_folder(models_path(), "model processes")


def models_path() -> str:
    return user_place(f"akdl_models_{os.geteuid()}")


def environment_place() -> str:
    return private_folder(environments_path(), "Python environments")


def environments_path() -> str:
    return user_place(f"akdl_envs_{os.geteuid()}")


def cache_folder(name: str) -> str:
    """Place of files of this user that can be fetched or made again; created by its caller."""
    return os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "akdl", name
    )


def private_folder(folder: str, purpose: str) -> str:
    """Make a folder, and check that it belongs to this user alone; ConfigurationError if not."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    if not is_private_folder(folder):
        raise ConfigurationError(f"{folder}, for {purpose}, {not_private(folder)}")
    return folder


def user_place(name: str, base: str = "") -> str:
    """Path of a folder for files of this user on this host; in the cache where another user has
    taken the name in `base`.
    """
    path = os.path.join(base or tempfile.gettempdir(), name)
    with contextlib.suppress(OSError):
        # A path that does not exist yet raises OSError, and is free to take.
        if not is_private_folder(path):
            # Hosts may share a home, and these folders belong to one host.
            own = cache_folder(f"{name}_{socket.gethostname()}")
            os.makedirs(os.path.dirname(own), exist_ok=True)
            return own
    return path
