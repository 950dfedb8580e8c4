"""What a member does at a moment, as the driver shows it. Pure.

The driver asks members in its own process for it. Members on a TaskManager write it into a small file beside Flink's logs,
which Flink's REST serves.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STARTING, JOINING, FEEDING, TRAINING, EXPORTING, ENDED = "starting", "joining", "feeding", "training", "exporting", "ended"
PHASES = (STARTING, JOINING, FEEDING, TRAINING, EXPORTING, ENDED)  # in this order


_LARGEST = 2**63  # of counts, bytes and seconds


@dataclass(frozen=True)
class MemberStatus:
    """A member at a moment.

    Args:
        is_worker: Whether it is a worker, and not a parameter server.
        phase: One of `PHASES`. In `FEEDING` rows still arrive; the script may train meanwhile.
        script_waited_s: Seconds that its script has waited for Flink to bring rows or to take them.
        flink_waited_s: Seconds that Flink has waited for the script to take rows.
        lines: The last lines that it printed, for a driver that shows them.
    """

    group: str
    index: int
    label: str
    is_worker: bool = True
    attempt: int = 0
    phase: str = STARTING
    failed: bool = False
    rows_in: int = 0
    rows_read: int = 0
    rows_out: int = 0
    step: int = 0
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    age_s: float = 0.0
    script_waited_s: float = 0.0
    flink_waited_s: float = 0.0
    phase_s: Mapping[str, float] = field(default_factory=dict)
    cpu_s: float = 0.0
    memory_bytes: int = 0
    lines_before: int = 0
    lines: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return it as one line."""
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> MemberStatus:
        """Return what a line says; unknown entries, as of a newer release, are left out."""
        try:
            found: Any = json.loads(text)
            example = MemberStatus("", 0, "")
            known = {each.name: getattr(example, each.name) for each in dataclasses.fields(MemberStatus)}
            entries = {name: value for name, value in found.items() if name in known}
            wrong = next((name for name, value in entries.items() if not _is_like(value, known[name], name == "metrics")), None)
            if wrong is not None:
                raise ValueError(f"no status of a member: the entry {wrong!r} is {entries[wrong]!r:.60}")
            return MemberStatus(**{**entries, "lines": tuple(entries.get("lines", ()))})
        except (AttributeError, TypeError, RecursionError) as error:
            raise ValueError(f"no status of a member: {text[:100]!r}") from error


def _is_like(value: Any, example: Any, is_open: bool) -> bool:
    """Test if a JSON value has the type of an example. Open ones may hold None, NaN and infinities."""
    if isinstance(example, tuple):
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if isinstance(example, Mapping):
        return isinstance(value, dict) and all(
            is_open and each is None or _is_like(each, 0.0, is_open) for each in value.values()
        )
    if isinstance(example, bool) or isinstance(value, bool) or isinstance(example, str):
        return type(value) is type(example)
    if isinstance(example, float):
        return isinstance(value, (int, float)) and (is_open and isinstance(value, float) or abs(value) < _LARGEST)
    return isinstance(value, int) and abs(value) < _LARGEST


class Clock:
    """Adds up how long a member was in each phase, and how long each side waited for the other."""

    def __init__(self, now: float) -> None:
        self._began = self._looked = now
        self.phase = STARTING
        self.phase_s: dict[str, float] = {}
        self.script_waited_s = 0.0
        self.flink_waited_s = 0.0

    def look(self, now: float, phase: str, script_waits: bool, flink_waits: bool) -> None:
        """Count the time since the last look as what is found now.

        Args:
            phase: The phase; one before that of the last look is taken for that one.
        """
        passed, self._looked = max(now - self._looked, 0.0), now
        self.phase = max(self.phase, phase, key=PHASES.index)
        if self.phase != ENDED:
            self.phase_s[self.phase] = self.phase_s.get(self.phase, 0.0) + passed
        if script_waits:
            self.script_waited_s += passed
        elif flink_waits:
            self.flink_waited_s += passed

    def age_s(self) -> float:
        """Seconds from the first to the last look."""
        return self._looked - self._began
