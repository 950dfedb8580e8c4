"""Places for rows on this host: Flink's folders for temporary files, in turn, else the system's."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping

IO_TMP_DIRS = "io.tmp.dirs"  # Flink's setting


def places(environment: Mapping[str, str], configured: str = "") -> list[str]:
    """Folders that can be written to, at least one.

    `configured` is the setting `io.tmp.dirs` of a job that runs in this program. On a cluster, variables of the TaskManager
    name the folder of its configuration, or YARN's folders.
    """
    text = configured or _of_cluster(environment.get("FLINK_CONF_DIR", "")) or environment.get("LOCAL_DIRS", "")
    found = [path.strip() for path in re.split("[,:]", text)]  # as Flink splits it
    usable = [path for path in found if path and os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK)]
    return usable or [tempfile.gettempdir()]


def shared_place(environment: Mapping[str, str], configured: str = "") -> str:
    """Folder for files that members of one host share: all have to agree. See `places`."""
    return places(environment, configured)[0]


def _of_cluster(conf_dir: str) -> str:
    if not os.path.isdir(conf_dir):
        return ""
    from pyflink.pyflink_gateway_server import read_from_config

    return str(read_from_config(IO_TMP_DIRS, "", conf_dir) or "")
