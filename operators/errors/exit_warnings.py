"""End-of-program warnings: results that no job computed, and jobs that nothing waited for.

Both mistakes are silent without a warning: the program ends with status 0 and has done nothing,
because operators are lazy and Flink's jobs run in the background.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable

from bridge.host.console import tell
from bridge.member import registry
from bridge.workarounds.beam_workers import end_workers

_checks: list[Callable[[], str]] = []
# Operators of jobs inside this program, by group. Jobs on a cluster go on after the program, so
# they are not noted.
_linked: dict[str, str] = {}


def warn_at_exit(check: Callable[[], str]) -> None:
    """Print the text that `check` returns when the program ends, unless it is empty."""
    _checks.append(check)


def note_linked(group: str, operator: str) -> None:
    """Note an operator, which is expected to run in a job before the program ends."""
    _linked[group] = operator


def exit_warnings() -> list[str]:
    """Texts of all warnings that apply now."""
    result = [text for text in (check() for check in _checks) if text]
    running = sorted(
        {f"{_linked.get(group, 'an operator')}, {label}" for group, label in registry.running()}
    )
    if running:
        result.append(
            f"the program ended while a job was running in it ({'; '.join(running[:3])}), which"
            " ended the job too: wait for the job with insertInto(...) instead of execute_insert,"
            " with waitForJob(result), or with wait() of the object that executeAsync() returned"
        )
    # If a job still runs, its operators may not have started, so the warning about idle operators
    # would be wrong.
    idle = sorted({name for group, name in _linked.items() if group not in registry.seen()})
    if idle and not running:
        result.append(
            f"no job has run {', '.join(idle)}: call print(), collectToDataframe() or"
            " insertInto(...), or wait for the job with waitForJob(result)"
        )
    return result


@atexit.register
def _warn_and_end() -> None:
    """Print the warnings when Python ends.

    A program with an uncaught error has one message that matters, so nothing else is printed.
    """
    # Python sets this attribute when it prints an uncaught error.
    if not hasattr(sys, "last_value"):
        for text in exit_warnings():
            tell(text)
    end_workers()
