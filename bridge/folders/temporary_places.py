"""Places on this host: folders for rows, which are Flink's for temporary files or else the
system's, and unix sockets.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping

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
