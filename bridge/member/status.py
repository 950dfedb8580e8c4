"""The status of a member, as the driver shows it, and the file next to Flink's logs in which a TaskManager sends it."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from akdl.folders.private_file import private
from akdl.storage.whole_file import WholeFile
from akdl.wire.status_pb2 import MemberStatus

STARTING, JOINING, FEEDING, TRAINING, EXPORTING, ENDED = "starting", "joining", "feeding", "training", "exporting", "ended"
PHASES = (STARTING, JOINING, FEEDING, TRAINING, EXPORTING, ENDED)  # in this order
SUFFIX = ".status"
LAST_SUFFIX = ".ended"
WRITE_S = 1.0


class Clock:
    """Seconds of a member in each phase, and seconds that script and Flink waited for each other."""

    def __init__(self, now: float) -> None:
        self._began = self._looked = now
        self.phase = STARTING
        self.phase_s: dict[str, float] = {}
        self.script_waited_s = 0.0
        self.flink_waited_s = 0.0

    def look(self, now: float, phase: str, script_waits: bool, flink_waits: bool) -> None:
        """Count the time since the last look as that of the current phase; a member never goes back to an earlier one."""
        passed, self._looked = max(now - self._looked, 0.0), now
        self.phase = max(self.phase, phase, key=PHASES.index)
        if self.phase != ENDED:
            self.phase_s[self.phase] = self.phase_s.get(self.phase, 0.0) + passed
        if script_waits:
            self.script_waited_s += passed
        elif flink_waits:
            self.flink_waited_s += passed

    def entries(self) -> dict[str, Any]:
        """Return the phase and the age, as entries of a `MemberStatus`."""
        phase_s = {phase: round(seconds, 2) for phase, seconds in self.phase_s.items()}
        return {"phase": self.phase, "age_s": round(self._looked - self._began, 2), "phase_s": phase_s}


class StatusFile:
    """A status in Flink's log folder, if Flink names one, else in `folder`.

    The last status has a file of its own, as Flink serves stale ones.
    """

    def __init__(self, name: str, now: float, folder: str = "") -> None:
        folder = os.environ.get("FLINK_LOG_DIR", folder)
        self._path = os.path.join(folder, f"akdl-{name}") if os.path.isdir(folder) else ""
        self._due = now

    def is_due(self, now: float) -> bool:
        return bool(self._path) and now >= self._due

    def write(self, status: MemberStatus, now: float) -> None:
        if not self._path:
            return
        self._due = now + WRITE_S
        is_last = status.phase == ENDED
        with contextlib.suppress(OSError):  # a full disk; the job goes on without the file
            with WholeFile(self._path + (LAST_SUFFIX if is_last else SUFFIX), private) as file:
                file.write(status.SerializeToString())
            if is_last:
                os.unlink(self._path + SUFFIX)
