"""The members in this Python process, and how they are stopped when nothing else can stop them.

In a local run Python functions run in the driver. When their job fails or is cancelled, Flink does not interrupt a function
that waits there, and never answers its request. So there are two ways out. The operator that runs a job stops its groups when
the job ends. And a thread stops members whose heartbeat Flink has not answered, and members whose worker has ended.

The latter is needed because a worker that loses its line to Flink closes no function. Its member may be waiting for a call from
Flink, or for state that PyFlink requests around its calls. It would wait indefinitely.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from akdl.wire import Report
from bridge.member.status import MemberStatus
from bridge.workarounds.beam_workers import has_ended, worker_of_this_thread

if TYPE_CHECKING:
    from apache_beam.runners.worker.sdk_worker import SdkHarness

logger = logging.getLogger(__name__)

ABANDONED_S = 10.0  # longer than a pause of a JVM that collects garbage under load
LOOK_S = 0.5


class Owned(Protocol):
    """A member as its registry sees it."""

    @property
    def group(self) -> str:
        """Name of its group."""

    @property
    def label(self) -> str:
        """What it is called in messages."""

    @property
    def unanswered_s(self) -> float:
        """For how many seconds Flink has not answered it."""

    @property
    def report(self) -> Report:
        """What its script has last reported of its training."""

    @property
    def status(self) -> MemberStatus:
        """What it did when it was last looked at."""

    def look(self) -> None:
        """Look at what it does."""

    def stop(self) -> None:
        """End its process. Safe to call twice."""


_last: dict[
    tuple[str, str], MemberStatus
] = {}  # of members that have been stopped and of tasks of predictors, by group and label
_members: dict[Owned, weakref.ref[SdkHarness] | None] = {}  # and Beam's worker that each lives in
_seen: set[str] = set()  # groups that have had a member here
_jobs: Counter[str] = Counter()  # of this program that have a group and run
_lock = threading.Lock()
_watcher: threading.Thread | None = None


def add(member: Owned) -> None:
    """Note a member that has a process or is about to start one."""
    global _watcher
    with _lock:
        _members[member] = worker_of_this_thread()
        _seen.add(member.group)
        if _watcher is None:
            _watcher = threading.Thread(target=_stop_abandoned, name="akdl-abandoned", daemon=True)
            _watcher.start()


def discard(member: Owned) -> None:
    """Forget a member that has been stopped, but for its last status."""
    note(member.status)
    with _lock:
        _members.pop(member, None)


def note(status: MemberStatus) -> None:
    """Note the status of somebody who is no member here: one that has been stopped, or a task of a predictor."""
    with _lock:
        _last[status.group, status.label] = status


def begin_groups(groups: Collection[str]) -> None:
    """Note that a job of this program starts these groups, which `stop_groups` stops at its end."""
    with _lock:
        _jobs.update(groups)


def stop_groups(groups: Collection[str]) -> None:
    """Stop every process of these groups that this Python process owns; for the end of their job, however it came.

    If a table is asked for by several threads at once, jobs have the same groups. The last job to end stops these.
    """
    with _lock:
        _jobs.subtract(groups)
        ended = {group for group in groups if _jobs[group] <= 0}
        for group in ended:
            del _jobs[group]
    for member in _snapshot():
        if member.group in ended:
            member.stop()


def forget_groups(groups: Collection[str]) -> None:
    """Forget the last statuses of the members of these groups, whose job has ended."""
    with _lock:
        for key in [key for key in _last if key[0] in groups]:
            del _last[key]


def statuses(groups: Collection[str]) -> list[MemberStatus]:
    """Return what the members of these groups in this Python process do, or did last."""
    running = [member.status for member in _snapshot() if member.group in groups]
    with _lock:
        ended = [status for (group, _), status in _last.items() if group in groups]
    known = {(status.group, status.label) for status in running}
    return running + [status for status in ended if (status.group, status.label) not in known]


def running() -> list[tuple[str, str]]:
    """Return group and label of each member in this Python process."""
    return [(member.group, member.label) for member in _snapshot()]


def seen() -> set[str]:
    """Return the groups that have had a member in this Python process."""
    with _lock:
        return set(_seen)


def reports(groups: Collection[str]) -> dict[str, Report]:
    """Return what the members of these groups in this Python process have last reported, by their labels."""
    return {member.label: member.report for member in _snapshot() if member.group in groups and member.report.number}


def _stop_abandoned() -> None:
    while True:
        time.sleep(LOOK_S)
        for member in _snapshot():
            member.look()
            if has_ended(_members.get(member)):
                logger.warning("%s: its worker has lost its line to Flink, stopping it", member.label)
                member.stop()
            elif member.unanswered_s > ABANDONED_S:
                logger.warning("%s: no sign of life from Flink for %g s, stopping it", member.label, ABANDONED_S)
                member.stop()


def _snapshot() -> list[Owned]:
    with _lock:
        return list(_members)
