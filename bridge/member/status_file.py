"""The file of a status beside Flink's logs, which a driver elsewhere reads through Flink's REST."""

from __future__ import annotations

import contextlib
import os

from bridge.member.status import MemberStatus

SUFFIX = ".status"
WRITE_S = 1.0


class StatusFile:
    """A file where Flink says where its logs are, as on a TaskManager; else nothing is written.

    Args:
        name: Of the member and its attempt; it begins with the name of the group.
        now: Monotonic seconds, as in all methods.
    """

    def __init__(self, name: str, now: float) -> None:
        folder = os.environ.get("FLINK_LOG_DIR", "")
        self._path = os.path.join(folder, f"akdl-{name}{SUFFIX}") if os.path.isdir(folder) else ""
        self._due = now

    def is_due(self, now: float) -> bool:
        """Whether a status is to be written: there is a file, and the last one is a second old."""
        return bool(self._path) and now >= self._due

    def write(self, status: MemberStatus, now: float) -> None:
        """Replace the file; whoever reads it meanwhile gets the old one."""
        if not self._path:
            return
        self._due = now + WRITE_S
        with contextlib.suppress(OSError):  # a full disk; the job goes on without it
            with open(f"{self._path}.new", "w", encoding="utf-8", opener=_private) as file:
                file.write(status.to_json())
            os.replace(f"{self._path}.new", self._path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
