"""The record of a run: one line of JSON for each thing that was seen, in a file that stays.

The first line says what runs, a line `sample` what one member did at a moment, the last line how it ended. A sample has the
fields of `bridge.member.status.MemberStatus`, without what the process printed.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import logging
import os
import re
import tempfile
import time
from collections.abc import Iterable
from typing import IO, Any

from akdl.masking import masked, shown
from akdl.storage.files import FileError, is_remote, local_path, opened_with_fsspec
from bridge.member.status import MemberStatus

logger = logging.getLogger(__name__)

VERSION = 1
_OFTEN = 300  # so many samples come every second; then the pause between them grows with the age of the run
_NOT_KEPT = ("group", "lines", "lines_before")


def run_name(operator: str, number: str) -> str:
    """Return what a run is called in a `logDir`: after its operator, and when it was begun.

    Args:
        operator: What a person calls the operator.
        number: What no other run has.
    """
    plain = re.sub(r"\W+", "-", operator).strip("-")
    return f"{plain}-{datetime.datetime.now(datetime.timezone.utc):%Y%m%d-%H%M%S}-{number}"


class Recorder:
    """Writes the record of one operator; what cannot be written never fails a job.

    Args:
        folder: Where the record is to lie: a local path, or an address that fsspec reaches.
        name: What a person calls the operator.
        group: Unique name of its group.
        size: Number of its processes.
    """

    def __init__(self, folder: str, name: str, group: str, size: int) -> None:
        started = datetime.datetime.now(datetime.timezone.utc)
        self._name = f"{run_name(name, group.rsplit('_', 1)[-1])}.jsonl"
        self._folder = folder
        self._began = time.monotonic()
        self._due = 0.0
        self._file: IO[str] | None = None
        try:
            self._path = self._local_path()
            self._file = open(self._path, "w", encoding="utf-8")
        except (OSError, FileError) as error:
            self._give_up(error)
        self._write({"kind": "run", "version": VERSION, "name": name, "size": size, "started": started.isoformat()})

    def look(self, members: Iterable[MemberStatus], is_last: bool = False) -> None:
        """Write a sample of each member, when it is time.

        Args:
            members: Their statuses.
            is_last: No other will come: it is time.
        """
        age_s = time.monotonic() - self._began
        if age_s < self._due and not is_last:
            return
        self._due = age_s + max(1.0, age_s / _OFTEN)
        for member in members:
            fields = dataclasses.asdict(member)
            kept = {name: value for name, value in fields.items() if name not in _NOT_KEPT}
            self._write({"kind": "sample", "t": round(age_s, 2), **kept})
        if self._file is not None:
            self._file.flush()

    def end(self, phase_s: dict[str, float], failed: bool) -> None:
        """Write the last line, and bring the record to its address.

        Args:
            phase_s: Seconds in each phase.
            failed: Whether the job has failed or was cancelled.
        """
        rounded = {phase: round(seconds, 2) for phase, seconds in phase_s.items()}
        self._write({"kind": "end", "t": round(time.monotonic() - self._began, 2), "failed": failed, "phase_s": rounded})
        if self._file is None:
            return
        self._file.close()
        if is_remote(self._folder):
            try:
                with opened_with_fsspec(self._folder) as (system, root):
                    system.makedirs(root, exist_ok=True)
                    system.put_file(self._path, f"{root.rstrip('/')}/{self._name}")
            except (OSError, FileError) as error:
                return self._give_up(error)
            finally:
                os.unlink(self._path)
        logger.info("the record of the run: %s/%s", shown(self._folder).rstrip("/"), self._name)

    def _local_path(self) -> str:
        if is_remote(self._folder):
            descriptor, path = tempfile.mkstemp(prefix="akdl_record_", suffix=".jsonl")
            os.close(descriptor)
            return path
        folder = local_path(self._folder)
        os.makedirs(folder, exist_ok=True)
        return os.path.join(folder, self._name)

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is not None:
            try:
                self._file.write(json.dumps(line) + "\n")
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._file = None
        logger.warning("cannot write a record to logDir %s: %s", shown(self._folder), masked(str(error), self._folder))


@dataclasses.dataclass(frozen=True)
class Record:
    """The record of a run, as it was read.

    Args:
        name: Of the operator.
        started: When it was started, in ISO form.
        size: Number of its processes.
        samples: By label of the member, in their order in time: the time in seconds and the status.
        phase_s: Seconds in each phase; empty where the run has not ended.
        total_s: Seconds that it took, or has taken so far.
        failed: Whether it has failed or was cancelled; None where it has not ended.
    """

    name: str
    started: str
    size: int
    samples: dict[str, list[tuple[float, MemberStatus]]]
    phase_s: dict[str, float]
    total_s: float
    failed: bool | None


def read_record(text: str) -> Record:
    """Return what a record says; a line that was cut off at the end of the file is left out.

    Raises:
        ValueError: It is no record.
    """
    lines = []
    for line in text.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    if not lines or not isinstance(lines[0], dict) or lines[0].get("kind") != "run":
        raise ValueError("no record of a run: expected a first line with kind 'run'")
    first, last = lines[0], lines[-1]
    samples: dict[str, list[tuple[float, MemberStatus]]] = {}
    for line in lines:
        if line["kind"] == "sample":
            status = MemberStatus.from_json(json.dumps({"group": "", **line}))
            samples.setdefault(status.label, []).append((float(line["t"]), status))
    return Record(
        name=first["name"],
        started=first["started"],
        size=first["size"],
        samples=samples,
        phase_s=last.get("phase_s", {}) if last["kind"] == "end" else {},
        # A job that was waited for late has members that are older than its record.
        total_s=max([float(last.get("t", 0.0)), *(each[-1][1].age_s for each in samples.values())]),
        failed=last["failed"] if last["kind"] == "end" else None,
    )
