"""Linked operators of a program, whose progress is shown once a job of the program runs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bridge.member.registry import forget_groups
from operators.flink.rest import Rest
from operators.progress.display import shown
from operators.progress.state import Shown

_MOST = 1000  # of a program that links operators in a loop
_linked: dict[str, tuple[Shown, Rest | None]] = {}
_told: set[str] = set()


def note_linked(operators: Mapping[str, Shown], rest: Rest | None) -> None:
    _linked.update((group, (each, rest)) for group, each in operators.items())
    while len(_linked) > _MOST:
        _told.discard(next(iter(_linked)))
        del _linked[next(iter(_linked))]


def note_told(groups: Mapping[str, Shown]) -> None:
    _told.update(group for group in groups if group in _linked)


@contextmanager
def shown_if_seen(says: bool = False) -> Iterator[None]:
    """Show the progress of linked operators that run while the block runs, or ran without being shown."""
    if not _linked:
        yield
        return
    _, rest = _linked[next(reversed(_linked))]  # where the last one runs
    place = repr(rest)
    operators = {group: each for group, (each, where) in _linked.items() if repr(where) == place}
    seen: set[str] = set()
    try:
        with shown(operators, rest, says, told=frozenset(_told)) as seen:
            yield
    finally:
        _told.update(seen)
        forget_groups(seen)
