"""The file of a status beside Flink's logs, which a driver elsewhere reads through Flink's REST.

Flink gives out the same content of a file for some seconds (`web.refresh-interval`). So the last status has a file of its own,
which nobody has read before: a driver whose job has ended gets it at once.
"""

from __future__ import annotations

import contextlib
import os

from akdl.folders.private_file import private
from akdl.storage.whole_file import WholeFile
from bridge.member.status import ENDED, MemberStatus

SUFFIX = ".status"
LAST_SUFFIX = ".ended"
WRITE_S = 1.0


class StatusFile:
    """A file where Flink says where its logs are, as on a TaskManager; else nothing is written.

    Args:
        name: Of the member and its attempt; it begins with the name of the group.
    """

    def __init__(self, name: str, now: float) -> None:
        folder = os.environ.get("FLINK_LOG_DIR", "")
        self._path = os.path.join(folder, f"akdl-{name}{SUFFIX}") if os.path.isdir(folder) else ""
        self._due = now

    def is_due(self, now: float) -> bool:
        """Whether a status is to be written: there is a file, and the last one is a second old."""
        return bool(self._path) and now >= self._due

    def write(self, status: MemberStatus, now: float) -> None:
        """Replace the file, at the end by one with another suffix; readers get the old one until the new one is whole."""
        if not self._path:
            return
        self._due = now + WRITE_S
        is_last = status.phase == ENDED
        path = self._path[: -len(SUFFIX)] + LAST_SUFFIX if is_last else self._path
        with contextlib.suppress(OSError):  # a full disk; the job goes on without it
            with WholeFile(path, private) as file:
                file.write(status.to_json().encode("utf-8"))
            if is_last:
                os.unlink(self._path)
