"""The members in this Python process, stopped where Flink cannot.

In a local run PyFlink runs functions in threads of the driver, and does not interrupt one that
waits when its job fails or is cancelled. So a thread of this module looks at all members twice a
second. It stops a member whose Beam worker has lost Flink, or whose question to Flink has had no
answer for ten seconds, and takes the statuses that the driver shows on the way.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import Counter
from collections.abc import Collection
from typing import TYPE_CHECKING

from akdl.wire.status_pb2 import MemberStatus
from bridge.workarounds.beam_workers import has_ended, worker_of_this_thread

if TYPE_CHECKING:
    from apache_beam.runners.worker.sdk_worker import SdkHarness

    from bridge.member.member import Member

logger = logging.getLogger(__name__)

# A JVM that collects garbage under load may pause for several seconds, but not for so long.
ABANDONED_S = 10.0
LOOK_S = 0.5

# Statuses of stopped members and of predictors' tasks, by group and label.
_last: dict[tuple[str, str], MemberStatus] = {}
# Running members with the Beam worker of each. The reference is weak, because a worker that has
# ended is recognized by its absence too.
_members: dict[Member, weakref.ref[SdkHarness] | None] = {}
# Attempt and error of the last failure of each group, until the next attempt prints it.
_failures: dict[str, tuple[int, str]] = {}
# Groups that have had a job or a member in this process.
_seen: set[str] = set()
# Number of running jobs of this program by group: jobs of one operator that run at once share it.
_jobs: Counter[str] = Counter()
_lock = threading.Lock()
_watcher: threading.Thread | None = None


def add(member: Member) -> None:
    """Watch a member from now on. Called in the thread of its Flink function.

    The worker can be found only there, among the callers of the function.
    """
    global _watcher
    with _lock:
        _members[member] = worker_of_this_thread()
        _seen.add(member.group)
        if _watcher is None:
            _watcher = threading.Thread(target=_stop_abandoned, name="akdl-abandoned", daemon=True)
            _watcher.start()


def discard(member: Member) -> None:
    """Stop watching a member, and keep its last status for the end of its job."""
    note(member.observer.status)
    with _lock:
        _members.pop(member, None)


def note(status: MemberStatus) -> None:
    with _lock:
        _last[status.group, status.label] = status


def note_failure(group: str, attempt: int, error: str) -> None:
    """Keep why an attempt of a group fails; the first member to fail is the cause."""
    with _lock:
        if group not in _failures or _failures[group][0] < attempt:
            _failures[group] = attempt, error


def take_failure(group: str, attempt: int) -> str | None:
    """Return why a group failed before this attempt, once; None if it did not fail in this
    process.
    """
    with _lock:
        # A group without a failure gets `attempt` itself as the default, which is not before it.
        return _failures.pop(group)[1] if _failures.get(group, (attempt,))[0] < attempt else None


def begin_groups(groups: Collection[str]) -> None:
    """Count a job that this program runs for these groups, until `stop_groups`."""
    with _lock:
        _jobs.update(groups)
        _seen.update(groups)


def stop_groups(groups: Collection[str]) -> set[str]:
    """Stop these groups in this Python process, unless another thread still runs a job of them, and
    return the stopped ones.
    """
    with _lock:
        _jobs.subtract(groups)
        ended = {group for group in groups if _jobs[group] <= 0}
        for group in ended:
            del _jobs[group]
    for member in _snapshot():
        if member.group in ended:
            member.stop()
    return ended


def forget_groups(groups: Collection[str]) -> None:
    with _lock:
        for key in [key for key in _last if key[0] in groups]:
            del _last[key]
        for group in groups:
            _failures.pop(group, None)


def statuses(groups: Collection[str]) -> list[MemberStatus]:
    """Return the status of each member of some groups, or the last one if it has ended."""
    # The statuses are taken without the lock of this module, as each takes that of its member.
    running = [member.observer.status for member in _snapshot() if member.group in groups]
    with _lock:
        ended = [status for (group, _), status in _last.items() if group in groups]
    # A script that was started again has both: a running member, and the status of the last one.
    known = {(status.group, status.label) for status in running}
    return running + [status for status in ended if (status.group, status.label) not in known]


def running() -> list[tuple[str, str]]:
    return [(member.group, member.label) for member in _snapshot()]


def seen() -> set[str]:
    """Groups that have had a job or a member here; the others were linked and never run."""
    with _lock:
        return set(_seen)


def _stop_abandoned() -> None:
    """Look at all members until the program ends, in a daemon thread."""
    while True:
        time.sleep(LOOK_S)
        for member in _snapshot():
            # A look fails, for example, where this process has no descriptors left. Without this
            # thread no member would be stopped any more, and the job of the next one would hang.
            try:
                _look_at(member)
            except Exception as error:
                logger.warning("%s: the look at its process failed: %r", member.label, error)


def _look_at(member: Member) -> None:
    # The function of such a member waits for Flink or its script, and nothing else would end it.
    # This comes first, because a status that cannot be made must not keep a member from its end.
    if has_ended(_members.get(member)):
        logger.warning(
            "%s: stopped, because its Python worker has lost the connection to Flink", member.label
        )
        member.stop()
    elif member.unanswered_s > ABANDONED_S:
        logger.warning(
            "%s: stopped, because Flink has not answered for %g s", member.label, ABANDONED_S
        )
        member.stop()
    else:
        member.observer.look()


def _snapshot() -> list[Member]:
    """Copy of the members, since `Member.stop` needs the lock of this module again."""
    with _lock:
        return list(_members)
