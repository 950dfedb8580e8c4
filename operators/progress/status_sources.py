"""Sources of the statuses of members.

In a local run the members live in this program. On a cluster TaskManagers write files next to
Flink's logs, because REST serves that folder, so no port has to be open for statuses. Before a
job's members have a status, only Flink's REST shows how far its start has come, so a source reports
that too.
"""

from __future__ import annotations

import logging
import os
import time
import urllib.parse
from collections.abc import Collection
from typing import NamedTuple

from google.protobuf.message import DecodeError

from akdl.wire.status_pb2 import MemberStatus
from bridge.member.registry import statuses
from bridge.member.status import ENDED, LAST_SUFFIX, SUFFIX
from bridge.table_env import groups_in
from operators.flink.rest import Rest, waits_for_slots

logger = logging.getLogger(__name__)

# Listing the files takes a request for each TaskManager, so it is done less often than reading the
# known ones.
_SEARCH_S = 2.0
# When all members have been found, only a restart makes other files.
_SEARCH_LATER_S = 15.0
# Members write their status each second. One that lags this much behind the newest file in its
# folder, which may be one of Flink's, was killed.
# Tasks of predictors write only while they predict, so they are excepted.
_LOST_MS = 20_000


class StatusSource:
    """Members of `groups` in this program, which needs no answer of Flink about their start."""

    def __init__(self, groups: Collection[str]) -> None:
        self._groups = groups

    def read(self, is_last: bool = False) -> list[MemberStatus]:
        """Statuses of the members; `is_last` on the last call, which may take longer."""
        return statuses(self._groups)

    def start_step(self) -> str:
        """Return the step of its start in which the job is, before its members have a status; "" if
        that is not known.
        """
        return ""

    def late_start(self, limit_s: float) -> str:
        """Return a warning about a task whose Python worker still starts after `limit_s` seconds;
        "" without one.
        """
        return ""


class RestSource(StatusSource):
    """Members of `groups` on a cluster.

    Once there are as many files as `members`, new ones are searched less often. A killed Python
    worker leaves its file in a folder that TaskManagers of one host share. So a status that lags
    behind the others does not count, and with `new`, for a job that starts now, files of earlier
    jobs don't count either. No call of `read` follows one with `is_last`.
    """

    def __init__(
        self, rest: Rest, groups: Collection[str], members: int | None = None, new: bool = False
    ) -> None:
        super().__init__(groups)
        self._rest = rest
        self._prefixes = tuple(f"akdl-{group}-" for group in groups)
        self._members = members
        # The keys are names of files without their suffix, which changes when the member ends.
        self._files: dict[str, _File] = {}
        self._left: Collection[_File] | None = None if new else ()
        self._read: dict[str, tuple[_File, MemberStatus]] = {}
        self._search_due = 0.0

    def read(self, is_last: bool = False) -> list[MemberStatus]:
        now = time.monotonic()
        if is_last or now >= self._search_due:
            self._search()
            is_complete = self._members is not None and len(self._files) >= self._members
            self._search_due = now + (_SEARCH_LATER_S if is_complete else _SEARCH_S)
        for name, file in self._files.items():
            known = self._read.get(name)
            # The status of an ended member does not change, so its file is read once.
            if known is None or known[0] != file or known[1].phase != ENDED:
                try:
                    self._read[name] = file, MemberStatus.FromString(self._rest.content(file.path))
                # The TaskManager may have gone, or the member has ended just now and its file has
                # another name. So the files are listed again soon.
                except (OSError, DecodeError) as error:
                    logger.debug("cannot read %s: %s", file.path, error)
                    self._search_due = min(self._search_due, now + _SEARCH_S)
        return [self._read[name][1] for name in self._files if name in self._read]

    def start_step(self) -> str:
        for job in self._rest.jobs_of(self._groups):
            if waits_for_slots(job):
                return "waiting for slots"
            return "Flink starts Python workers on the cluster"
        return "the job and its files are sent"

    def late_start(self, limit_s: float) -> str:
        for job in self._rest.jobs_of(self._groups):
            ours = [
                node["id"]
                for node in job["plan"]["nodes"]
                if not groups_in({"nodes": [node]}).isdisjoint(self._groups)
            ]
            for vertex in job["vertices"]:
                starts_s = (job["now"] - vertex["start-time"]) / 1000
                if (
                    vertex["id"] in ours
                    and vertex["tasks"].get("INITIALIZING")
                    and starts_s > limit_s
                ):
                    tasks = self._rest.get(f"/jobs/{job['jid']}/vertices/{vertex['id']}")[
                        "subtasks"
                    ]
                    places = sorted(
                        {each["endpoint"] for each in tasks if each["status"] == "INITIALIZING"}
                    )
                    return (
                        f"{vertex['name']}: Flink's Python workers still start after {limit_s:g} s"
                        f" (startTimeout) on {', '.join(places)}, and the job waits for them. A"
                        " .pth file, sitecustomize or an import may block them: look there at the"
                        " processes beam_boot, and at the TaskManager's log"
                    )
        return ""

    def _search(self) -> None:
        """List the files of statuses on all TaskManagers."""
        found: dict[str, _File] = {}
        for manager in self._rest.get("/taskmanagers")["taskmanagers"]:
            folder = f"/taskmanagers/{manager['id']}/logs"
            try:
                files = self._rest.get(folder)["logs"]
            # Flink lists a lost TaskManager until its heartbeats are missed. Its files stay known
            # meanwhile, so that its members do not seem to have ended.
            except OSError as error:
                logger.debug("cannot list %s: %s", folder, error)
                found.update(
                    (name, file)
                    for name, file in self._files.items()
                    if file.path.startswith(folder)
                )
                continue
            # The clocks of hosts and of this program differ, so the times of files are compared
            # only with times in the same folder.
            last = max((each.get("mtime", 0) for each in files), default=0)
            for each in files:
                name, suffix = os.path.splitext(each["name"])
                if suffix in (SUFFIX, LAST_SUFFIX) and name.startswith(self._prefixes):
                    path = f"{folder}/{urllib.parse.quote(each['name'])}"
                    file = _File(each.get("mtime", 0), suffix == LAST_SUFFIX, path)
                    # TaskManagers of one host may share a folder and list the same file, and an
                    # ended member has two files. The newest one counts.
                    if file.is_last or "-task-" in name or last - file.written < _LOST_MS:
                        found[name] = max(file, found.get(name, file))
        # All files of the first search were there before a new job.
        if self._left is None:
            self._left = found.values()
        self._files = {name: file for name, file in found.items() if file not in self._left}


class _File(NamedTuple):
    """A file of statuses: when it was written, in ms of its host's clock; whether it is the last
    status of an ended member; its path in REST. The last status has a file of its own, because REST
    returns the content that it has read before for some seconds.
    """

    written: int
    is_last: bool
    path: str
