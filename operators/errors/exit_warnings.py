"""What a program has forgotten when it ends: results that were never run, and jobs that it has not waited for."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Collection

from bridge.host.console import tell
from bridge.member import registry
from bridge.workarounds.beam_workers import end_workers

_looks: list[Callable[[], str]] = []
_linked: dict[str, str] = {}  # operators of jobs inside this program by the name of their group, until a job runs


def look_at_exit(look: Callable[[], str]) -> None:
    """Let a function say at the end of the program what was forgotten; "" for nothing."""
    _looks.append(look)


def note_linked(group: str, operator: str) -> None:
    """Note that a script was linked, whose job would end with this program."""
    _linked[group] = operator


def note_run(groups: Collection[str]) -> None:
    """Note that a job with these groups runs, and is waited for."""
    for group in groups:
        _linked.pop(group, None)


def forgotten() -> list[str]:
    """Return what is to be told, one sentence each."""
    result = [text for text in (look() for look in _looks) if text]
    running = sorted({f"{_linked.get(group, 'an operator')}, {label}" for group, label in registry.running()})
    if running:
        result.append(
            f"the program has ended while a job ran in it ({'; '.join(running[:3])}), which ends with it: wait for the job, "
            "with insertInto(...) in place of execute_insert, with waitForJob(result), or with wait() of what executeAsync() "
            "returned"
        )
    idle = sorted({name for group, name in _linked.items() if group not in registry.seen()})
    if idle and not running:
        result.append(
            f"no job has run {', '.join(idle)}: call print(), collectToDataframe() or insertInto(...), or wait for the job "
            "with waitForJob(result)"
        )
    return result


@atexit.register
def _tell_and_end() -> None:
    if not hasattr(sys, "last_value"):  # an error has ended the program, and is told
        for text in forgotten():
            tell(text)
    end_workers()
