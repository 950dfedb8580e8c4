"""Places on this host for rows, unix sockets, and what all programs of one user share.

Rows are in Flink's folders for temporary files, or else the system's. The folders of a user have
known names, so that programs find them, and no other user can read them. Another user may take such
a name in /tmp first. The user's cache has the folder then: otherwise that would stop all jobs of
this user.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import tempfile
from collections.abc import Mapping

from akdl.storage.local_files import is_private_folder, not_private
from bridge.exceptions import ConfigurationError

IO_TMP_DIRS = "io.tmp.dirs"  # Flink's setting
# A path of a unix socket has at most 107 bytes on Linux and 103 on macOS.
_LONGEST_SOCKET = 100


def places(environment: Mapping[str, str], configured: str = "") -> list[str]:
    """Folders that can be written to, at least one; `configured` is the setting `io.tmp.dirs` of a
    job in this program.
    """
    text = (
        configured
        or _of_cluster(environment.get("FLINK_CONF_DIR", ""))
        or environment.get("LOCAL_DIRS", "")
    )
    # Flink separates these folders by commas and colons.
    found = [path.strip() for path in re.split("[,:]", text)]
    usable = [
        path
        for path in found
        if path and os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)
    ]
    return usable or [tempfile.gettempdir()]


def shared_place(configured: str) -> str:
    """Folder for files that members of one host share: all have to agree. See `places`."""
    return places(os.environ, configured)[0]


def socket_address(path: str) -> str | None:
    """Address for gRPC of a unix socket; None for a path too long for one, as batch systems have,
    or that gRPC misreads.
    """
    # gRPC parses the text after "unix:" as a URI.
    if path.isascii() and "%" not in path and len(path) <= _LONGEST_SOCKET:
        return f"unix:{path}"
    return None


def _of_cluster(conf_dir: str) -> str:
    """Read the setting from the configuration of a TaskManager, whose folder a variable names."""
    if not os.path.isdir(conf_dir):
        return ""
    from pyflink.pyflink_gateway_server import read_from_config

    return str(read_from_config(IO_TMP_DIRS, "", conf_dir) or "")


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
