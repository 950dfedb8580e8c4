"""Record of a run, a file of JSON lines: first the run, then samples of its members, last its end.

Lines are complete for themselves, so the record of a program that was killed can be read up to its
last line.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import logging
import os
import re
import tempfile
import time
from collections.abc import Iterable
from typing import IO, NamedTuple, TypeVar

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError

from akdl.masking import masked, shown
from akdl.storage.files import FileError, is_remote, local_path, opened_with_fsspec, put_whole
from akdl.wire.status_pb2 import MemberStatus, RecordLine

logger = logging.getLogger(__name__)

VERSION = 1
# So many samples are taken each second. Then the pause between them grows with the age of the run,
# so that the record of a run of weeks stays small.
_OFTEN = 300
_Line = TypeVar("_Line", RecordLine, MemberStatus)
# These fields change all the time or are large, and no report reads them.
_NOT_KEPT = (
    "group",
    "lines",
    "lines_before",
    "operator",
    "waiting",
    "idle_s",
    "spinning",
    "calling",
    "stack",
)


def run_name(operator: str, number: str) -> str:
    """Name of a run, which sorts by its start and is valid in any file system."""
    plain = re.sub(r"\W+", "-", operator).strip("-")
    return f"{plain}-{datetime.datetime.now(datetime.timezone.utc):%Y%m%d-%H%M%S}-{number}"


class Recorder:
    """Writes the record of one operator; a failure to write never fails a job.

    After a failure `_file` is None, and all further calls do nothing.
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
            # With a buffer of one line a full disk fails in `_write`, which handles it, and not in
            # a later flush.
            self._file = open(self._path, "w", 1, encoding="utf-8")
        except (OSError, FileError) as error:
            self._give_up(error)
        self._write("run", version=VERSION, name=name, size=size, started=started.isoformat())

    def look(self, members: Iterable[MemberStatus], is_last: bool = False) -> None:
        """Take a sample of the members, if one is due."""
        age_s = time.monotonic() - self._began
        if age_s < self._due and not is_last:
            return
        self._due = age_s + max(1.0, age_s / _OFTEN)
        for member in members:
            fields = MessageToDict(member, preserving_proto_field_name=True)
            kept = {name: value for name, value in fields.items() if name not in _NOT_KEPT}
            self._write("sample", t=round(age_s, 2), **kept)

    def end(self, failed: bool) -> None:
        """Write the end of the run, and bring a record for a remote folder to its address."""
        self._write("end", t=round(time.monotonic() - self._began, 2), failed=failed)
        if self._file is None:
            return
        self._file.close()
        if is_remote(self._folder):
            try:
                with opened_with_fsspec(self._folder) as (system, root):
                    put_whole(system, self._path, f"{root}/{self._name}")
            except (OSError, FileError) as error:
                self._give_up(error)
                return
            finally:
                os.unlink(self._path)
        logger.info("the record of the run: %s/%s", shown(self._folder).rstrip("/"), self._name)

    def _local_path(self) -> str:
        """Path of the record on this host.

        A remote folder gets the file as a whole at the end, since object stores cannot append.
        """
        if is_remote(self._folder):
            descriptor, path = tempfile.mkstemp(prefix="akdl_record_", suffix=".jsonl")
            os.close(descriptor)
            return path
        folder = local_path(self._folder)
        os.makedirs(folder, exist_ok=True)
        return os.path.join(folder, self._name)

    def _write(self, kind: str, /, **entries: object) -> None:
        if self._file is not None:
            try:
                self._file.write(json.dumps({"kind": kind, **entries}) + "\n")
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        if self._file is not None:
            # Closing may try once more to write what is left, and fail again.
            with contextlib.suppress(OSError):
                self._file.close()
        self._file = None
        logger.warning(
            "cannot write a record to logDir %s: %s",
            shown(self._folder),
            masked(str(error), self._folder),
        )


class Record(NamedTuple):
    """Parsed record of a run; `failed` is None where the run has not ended."""

    name: str
    started: str
    size: int
    samples: dict[str, list[tuple[float, MemberStatus]]]
    total_s: float
    failed: bool | None

    @property
    def last(self) -> list[MemberStatus]:
        """Return the last status of each member, without members that were lost before."""
        # A program that was killed may have written only some members at its last look, so the two
        # last looks count.
        looks = sorted({seconds for found in self.samples.values() for seconds, _ in found})[-2:]
        return [found[-1][1] for found in self.samples.values() if found[-1][0] in looks]


def read_record(text: str) -> Record:
    """Parse a record; a last line that was cut off is ignored."""
    lines = []
    for line in text.splitlines():
        try:
            lines.append(json.loads(line))
        except (ValueError, RecursionError):
            break
    if not lines or not isinstance(lines[0], dict) or lines[0].get("kind") != "run":
        raise ValueError("not a record of a run: expected a first line with kind 'run'")
    run = _parsed(1, lines[0], RecordLine())
    end = RecordLine()
    samples: dict[str, list[tuple[float, MemberStatus]]] = {}
    for number, line in enumerate(lines[1:], 2):
        entries = _parsed(number, line, RecordLine())
        if entries.kind == "sample":
            status = _parsed(number, line, MemberStatus())
            samples.setdefault(status.label, []).append((entries.t, status))
        else:
            end = entries
    # The time of members begins with the job, which may have waited for slots, or run, before it
    # was seen.
    total_s = max(
        [
            end.t,
            *(max(found[-1][0], sum(found[-1][1].time_s.values())) for found in samples.values()),
        ]
    )
    return Record(
        run.name, run.started, run.size, samples, total_s, end.failed if end.kind else None
    )


def _parsed(number: int, line: object, message: _Line) -> _Line:
    try:
        if not isinstance(line, dict):
            raise ParseError(f"expected an object, got {line!r:.60}")
        # A newer release may write more entries, so unknown ones are ignored.
        return ParseDict(line, message, ignore_unknown_fields=True)
    # protobuf raises an OverflowError for an integer of hundreds of digits.
    except (ParseError, OverflowError) as error:
        raise ValueError(f"line {number}: {error}") from None
