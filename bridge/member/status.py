"""The status of a member, as the driver shows it, and the file next to Flink's logs in which a TaskManager sends it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from akdl.folders.private_file import private
from akdl.storage.whole_file import WholeFile

STARTING, JOINING, FEEDING, TRAINING, EXPORTING, ENDED = "starting", "joining", "feeding", "training", "exporting", "ended"
PHASES = (STARTING, JOINING, FEEDING, TRAINING, EXPORTING, ENDED)  # in this order
SUFFIX = ".status"
LAST_SUFFIX = ".ended"
WRITE_S = 1.0
_LARGEST = 2**63  # of counts, bytes and seconds


@dataclass(frozen=True)
class MemberStatus:
    group: str
    index: int
    label: str
    is_worker: bool = True  # False for a parameter server
    attempt: int = 0
    phase: str = STARTING  # in FEEDING rows still arrive; the script may train meanwhile
    failed: bool = False
    rows_in: int = 0
    rows_read: int = 0
    rows_out: int = 0
    step: int = 0
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    age_s: float = 0.0
    script_waited_s: float = 0.0  # for Flink to send or to take rows
    flink_waited_s: float = 0.0  # for the script to take rows
    phase_s: Mapping[str, float] = field(default_factory=dict)
    cpu_s: float = 0.0
    memory_bytes: int = 0
    gpus: str = ""  # of a model, as in CUDA_VISIBLE_DEVICES
    lines_before: int = 0
    lines: tuple[str, ...] = ()  # the last printed ones

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> MemberStatus:
        try:
            return MemberStatus.of("a status", json.loads(text))
        except RecursionError as error:
            raise ValueError(f"a status: {error}") from error

    @staticmethod
    def of(where: str, found: object) -> MemberStatus:
        """Return the status in a JSON object; unknown entries, as of a newer release, are ignored."""
        example = MemberStatus("", 0, "")
        known = {each.name: getattr(example, each.name) for each in dataclasses.fields(MemberStatus)}
        entries = checked(where, found, known, required=("group", "index", "label"))
        return MemberStatus(**{**entries, "lines": tuple(entries.get("lines", ()))})


def checked(where: str, found: object, example: Mapping[str, object], required: Collection[str]) -> dict[str, Any]:
    """Return the entries of a JSON object that an example has too; ValueError for one of another type."""
    if not isinstance(found, dict):
        raise ValueError(f"{where}: expected an object, got {found!r:.60}")
    entries = {name: found.get(name) for name in example if name in found or name in required}
    for name, value in entries.items():
        if not _is_like(value, example[name], name == "metrics"):
            raise ValueError(f"{where}, entry {name!r}: expected a value such as {example[name]!r}, got {value!r:.60}")
    return entries


def _is_like(value: object, example: object, is_open: bool) -> bool:
    """Compare the type of a JSON value with that of an example. An open one may hold None, NaN and infinities."""
    if isinstance(example, tuple):
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if isinstance(example, Mapping):
        return isinstance(value, dict) and all(
            (is_open and each is None) or _is_like(each, 0.0, is_open) for each in value.values()
        )
    if isinstance(example, bool) or isinstance(value, bool) or isinstance(example, str):
        return type(value) is type(example)
    if isinstance(example, float):
        return isinstance(value, (int, float)) and ((is_open and isinstance(value, float)) or abs(value) < _LARGEST)
    return isinstance(value, int) and abs(value) < _LARGEST


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
    """A status in Flink's log folder, if Flink names one. The last status has a file of its own, as Flink serves stale ones."""

    def __init__(self, name: str, now: float) -> None:
        folder = os.environ.get("FLINK_LOG_DIR", "")
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
                file.write(status.to_json().encode("utf-8"))
            if is_last:
                os.unlink(self._path + SUFFIX)
