"""The members that live in this Python process, and their end when nobody else can bring it about.

In a local run Python functions live in the driver. When their job fails or is cancelled, nothing interrupts a function
that waits there, and its question to Flink is never answered. Two things help: whoever runs a job stops its groups when
it ends, and a thread stops members whose heartbeat Flink has left without an answer.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridge.member import Member

logger = logging.getLogger(__name__)

ABANDONED_S = 10.0  # longer than a pause of a JVM that collects garbage under load
LOOK_S = 1.0

_members: set[Member] = set()
_lock = threading.Lock()
_watcher: threading.Thread | None = None


def add(member: Member) -> None:
    """Note a member that has a process or is about to start one."""
    global _watcher
    with _lock:
        _members.add(member)
        if _watcher is None:
            _watcher = threading.Thread(target=_stop_abandoned, name="akdl-abandoned", daemon=True)
            _watcher.start()


def discard(member: Member) -> None:
    """Forget a member that has been stopped."""
    with _lock:
        _members.discard(member)


def stop_groups(groups: Collection[str]) -> None:
    """Stop every process of these groups that this Python process owns; for the end of their job, however it came."""
    for member in _snapshot():
        if member.group in groups:
            member.stop()


def _stop_abandoned() -> None:
    while True:
        time.sleep(LOOK_S)
        for member in _snapshot():
            if member.unanswered_s > ABANDONED_S:
                logger.warning("%s: no sign of life from Flink for %g s, stopping it", member.label, ABANDONED_S)
                member.stop()


def _snapshot() -> list[Member]:
    with _lock:
        return list(_members)
