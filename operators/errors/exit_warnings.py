"""End-of-program warnings: results that no job computed, and jobs that the program did not wait for."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable

from bridge.host.console import tell
from bridge.member import registry
from bridge.workarounds.beam_workers import end_workers

_checks: list[Callable[[], str]] = []
_linked: dict[str, str] = {}  # group to operator, of jobs inside this program


def warn_at_exit(check: Callable[[], str]) -> None:
    """Print the text that `check` returns when the program ends, unless it is empty."""
    _checks.append(check)


def note_linked(group: str, operator: str) -> None:
    _linked[group] = operator


def exit_warnings() -> list[str]:
    result = [text for text in (check() for check in _checks) if text]
    running = sorted({f"{_linked.get(group, 'an operator')}, {label}" for group, label in registry.running()})
    if running:
        result.append(
            f"the program ended while a job was running in it ({'; '.join(running[:3])}), which ended the job too: wait for "
            "the job with insertInto(...) instead of execute_insert, with waitForJob(result), or with wait() of the object "
            "that executeAsync() returned"
        )
    idle = sorted({name for group, name in _linked.items() if group not in registry.seen()})
    if idle and not running:
        result.append(
            f"no job has run {', '.join(idle)}: call print(), collectToDataframe() or insertInto(...), or wait for the job "
            "with waitForJob(result)"
        )
    return result


@atexit.register
def _warn_and_end() -> None:
    if not hasattr(sys, "last_value"):  # an uncaught error is the only message that matters
        for text in exit_warnings():
            tell(text)
    end_workers()
