"""The status of a member, as the driver shows it, and the file in which a TaskManager sends it.

The driver of a job on a cluster has no connection to the TaskManagers except Flink's REST, which
serves the files in the folder of Flink's logs. So a member replaces a small file there every
second, and no port has to be opened.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any

import psutil

from akdl.storage.local_files import WholeFile, private
from akdl.wire.status_pb2 import MemberStatus
from bridge.workarounds.beam_workers import is_worker_process

# The phases are in the order of a member's life, in which it never goes back.
STARTING, JOINING, FEEDING, TRAINING, EXPORTING, ENDED = PHASES = (
    "starting",
    "joining",
    "feeding",
    "training",
    "exporting",
    "ended",
)
# These are the uses of time. Each second of a member has one of them.
WORK, READ, DATA, PEERS, START, EXPORT, LOST = USES = (
    "work",
    "read",
    "data",
    "peers",
    "start",
    "export",
    "lost",
)
SUFFIX = ".status"
LAST_SUFFIX = ".ended"
WRITE_S = 1.0
_MOST_PLACES = 3
_LOG_FILE = "-Dlog.file="


def log_folder() -> str:
    """Return the folder of the TaskManager's own log, where Flink's REST endpoint finds other files
    too; "" without one.

    Flink's start scripts pass the log file to the JVM, which is an ancestor of this Python worker,
    but don't export `FLINK_LOG_DIR`. A JVM that was started without them may have the variable.
    """
    if is_worker_process():
        with contextlib.suppress(psutil.Error):
            for parent in psutil.Process().parents():
                for option in parent.cmdline():
                    if option.startswith(_LOG_FILE):
                        return os.path.dirname(os.path.join(parent.cwd(), option[len(_LOG_FILE) :]))
    return os.environ.get("FLINK_LOG_DIR", "")


class Clock:
    """Phase and seconds of one attempt. Each second has one use, so that the uses add up to the
    age.
    """

    def __init__(self, now: float) -> None:
        self._looked = now
        self.phase = STARTING
        self.time_s: dict[str, float] = {}
        self.place_s: dict[str, float] = {}

    def look(self, now: float, phase: str, use: str, place: str = "") -> None:
        """Count the time since the last look as that of the current use; a member never goes back
        to an earlier phase.
        """
        # The Flink function and the registry's thread both look, so a time may be earlier than the
        # last one.
        passed = max(now - self._looked, 0.0)
        self._looked = max(now, self._looked)
        self.phase = max(self.phase, phase, key=PHASES.index)
        self.time_s[use] = self.time_s.get(use, 0.0) + passed
        if use == WORK and place:
            self.place_s[place] = self.place_s.get(place, 0.0) + passed

    def entries(self) -> dict[str, Any]:
        """Return entries of a `MemberStatus`."""
        time_s = {use: round(seconds, 2) for use, seconds in self.time_s.items()}
        most = sorted(self.place_s.items(), key=lambda item: -item[1])[:_MOST_PLACES]
        return {
            "phase": self.phase,
            "age_s": round(sum(time_s.values()), 2),
            "time_s": time_s,
            "place_s": {place: round(seconds, 2) for place, seconds in most},
        }


class StatusFile:
    """A status in Flink's log folder if Flink has one, else in `folder`, as in a local program.

    The last status has a file with another ending, because Flink's REST serves stale files.
    """

    def __init__(self, name: str, now: float, folder: str = "") -> None:
        # The shell of a local program may have a FLINK_LOG_DIR that is meant for clusters. With it,
        # `akdl top` did not find the statuses of local programs.
        if not folder or is_worker_process():
            folder = log_folder() or folder
        self._path = os.path.join(folder, f"akdl-{name}") if os.path.isdir(folder) else ""
        self._due = now

    def is_due(self, now: float) -> bool:
        return bool(self._path) and now >= self._due

    def write(self, status: MemberStatus, now: float) -> None:
        if not self._path:
            return
        self._due = now + WRITE_S
        is_last = status.phase == ENDED
        # The disk may be full. A job does not fail for a status, so it goes on without the file.
        with contextlib.suppress(OSError):
            # The driver may read the file at any moment, so it is replaced as a whole.
            with WholeFile(self._path + (LAST_SUFFIX if is_last else SUFFIX), private) as file:
                file.write(status.SerializeToString())
            if is_last:
                os.unlink(self._path + SUFFIX)
