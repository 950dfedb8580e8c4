"""Progress of the operators of a job, shown from a thread while the job runs.

The thread belongs to one job. Nothing in it may fail the job, so errors of a look are logged and
the next look tries again.

It is drawn as bars on a terminal, one changing line in a notebook, or lines at intervals in a log.
"""

from __future__ import annotations

import logging
import math
import os
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, Union

from akdl.wire.status_pb2 import MemberStatus
from bridge.host.console import print_line, say, warn
from bridge.member.status import ENDED
from operators.flink.rest import Rest
from operators.progress.record import Recorder
from operators.progress.state import Line, OperatorState, Shown
from operators.progress.status_sources import RestSource, StatusSource

logger = logging.getLogger(__name__)

LOOK_S = 0.5
# After `startTimeout`, this many seconds pass from one search for late Python workers to the next,
# because each costs the cluster several requests.
LATE_LOOK_S = 10.0


@contextmanager
def shown(
    operators: Mapping[str, Shown],
    rest: Rest | None,
    says: bool = False,
    told: Collection[str] | None = None,
) -> Iterator[set[str]]:
    """Show the progress of operators while the block runs; yield the set of groups that were seen,
    filled meanwhile.

    With `told`, it is not clear which of the operators are in the job, so one counts once a status
    of it is found. A group in `told` was shown to the end of its last job already, so it counts
    only when it starts again.
    """
    renders = renderer() if any(each.visible for each in operators.values()) else None
    source = StatusSource(operators)
    if rest is not None:
        source = RestSource(
            rest, operators, sum(each.size for each in operators.values()), new=told is None
        )
    poller = StatusPoller(operators, source, renders, says and rest is not None, told)
    thread = threading.Thread(target=poller.run, name="akdl-shown", daemon=True)
    thread.start()
    # The block is taken for failed until it has ended, so interrupts and all other exceptions count
    # as failures.
    failed = True
    try:
        yield poller.seen
        failed = False
    finally:
        poller.stop(failed)
        thread.join()


class StatusPoller:
    """Shows and records the statuses of a job's members, says what they print, and warns of Python
    workers that start late.

    The warning comes even where nothing is shown, since a worker that blocks before code of ours
    runs reports nothing itself.
    """

    def __init__(
        self,
        operators: Mapping[str, Shown],
        source: StatusSource,
        renders: Renderer | None,
        says: bool,
        told: Collection[str] | None = None,
    ) -> None:
        now = self._began = time.monotonic()
        self._operators = operators
        self._source = source
        self._renders = renders
        self._says = says
        # Reading statuses costs requests to the cluster, so it is done only if they are shown,
        # printed or recorded.
        self._reads = (
            says or renders is not None or any(each.log_dir for each in operators.values())
        )
        self._start_limit_s = max(each.start_timeout_s for each in operators.values())
        self._late_look_due = now + self._start_limit_s
        self.states = {group: OperatorState(each, now) for group, each in operators.items()}
        self._said: dict[tuple[str, int, int], int] = {}
        self._recorders: dict[str, Recorder] = {}
        self._old = set(told or ())
        self._waits_for_any = told is not None
        # All operators of a job of akdl's own are known to run. With `told`, which of the noted
        # operators are in the job shows only when one of them has a status.
        self.seen: set[str] = set() if told is not None else set(operators)
        for group in self.seen:
            self._record(group)
        self._over = threading.Event()
        self._failed = False

    def run(self) -> None:
        """Look and show until `stop`, then once more for the last state.

        Runs in a thread of its own.
        """
        while not self._over.wait(LOOK_S):
            self.look()
            if self._renders is not None:
                self._renders.show(self.lines())
        self.look(is_last=True)
        for recorder in self._recorders.values():
            recorder.end(self._failed)
        if self._renders is not None:
            self._renders.end([state.last_line(self._failed) for state in self._visible()])

    def stop(self, failed: bool) -> None:
        """End the thread's loop. Called by another thread, which then joins it."""
        self._failed = failed
        self._over.set()

    def lines(self) -> list[Line]:
        """Lines to show now.

        For a job of plain PyFlink there is a sign of life as long as no operator was seen.
        """
        lines = [state.line() for state in self._visible()]
        if not lines and self._waits_for_any:
            passed_s = time.monotonic() - self._began
            lines.append(
                Line("the job", f"no script or model runs yet, {passed_s:.0f} s", is_idle=True)
            )
        return lines

    def look(self, is_last: bool = False) -> None:
        """Read the statuses; a status that cannot be read now may be read later."""
        found = None
        waits = ""
        try:
            self._warn_of_late_start()
            if self._reads:
                found = self._source.read(is_last)
                waits = "" if found else self._source.start_step()
        # Nothing in the display may fail a job.
        except Exception as error:
            logger.debug("cannot tell the progress: %s: %s", type(error).__name__, error)
        now = time.monotonic()
        for group, state in self.states.items():
            state.waits = waits or state.waits
            own = [each for each in found or () if each.group == group]
            # A group that was shown before still has its last status. It counts again only when a
            # member of it is alive.
            if group in self._old:
                if all(each.phase == ENDED for each in own):
                    continue
                self._old.discard(group)
            if own and group not in self.seen:
                self.seen.add(group)
                self._record(group)
            state.look(now, None if found is None else own)
            if group in self._recorders:
                self._recorders[group].look(state.members, is_last)
            if self._says:
                for each in own:
                    self._say(each)

    def _warn_of_late_start(self) -> None:
        """Warn once of Python workers that block before code of ours could report it."""
        now = time.monotonic()
        if now >= self._late_look_due:
            self._late_look_due = now + LATE_LOOK_S
            text = self._source.late_start(self._start_limit_s)
            if text:
                # One warning is enough, because it names all places.
                self._late_look_due = math.inf
                warn(text)

    def _record(self, group: str) -> None:
        """Begin the record of a group, if its operator has a logDir."""
        operator = self._operators[group]
        if operator.log_dir:
            self._recorders[group] = Recorder(operator.log_dir, operator.name, group, operator.size)

    def _visible(self) -> list[OperatorState]:
        return [
            self.states[group]
            for group, each in self._operators.items()
            if each.visible and group in self.seen
        ]

    def _say(self, member: MemberStatus) -> None:
        # The lines of a new attempt are numbered from the beginning, so they are counted
        # separately.
        key = (member.group, member.index, member.attempt)
        said = self._said.get(key, 0)
        name = f"{self._operators[member.group].name}, {member.label}"
        # A status has the last lines only, and lines_before counts the ones in front of them. A
        # member that prints fast may have dropped lines since the last look.
        if member.lines_before > said:
            say(
                f"[{name}] ({member.lines_before - said:,} lines are left out here; they are in its"
                " log file, next to Flink's)"
            )
        for line in member.lines[max(said - member.lines_before, 0) :]:
            say(f"[{name}] {line}")
        self._said[key] = member.lines_before + len(member.lines)


# The environment variable of this name switches the display off with 0.
SWITCH = "AKDL_PROGRESS"
# A log has no line for a job that ends within this time, and later one line at most every `EVERY_S`
# seconds.
FIRST_S = 4.0
EVERY_S = 10.0
# A line that has not changed is printed again as a sign of life.
_AGAIN_S = 60.0


def renderer() -> Renderer | None:
    """Renderer for the place where output goes; None if AKDL_PROGRESS switches it off."""
    if os.environ.get(SWITCH, "1").lower() in ("0", "false", "off", "no"):
        return None
    ipython = sys.modules.get("IPython")
    # IPython in a terminal has another shell class, and gets the bars of a terminal.
    if ipython is not None and type(ipython.get_ipython()).__name__ == "ZMQInteractiveShell":
        return NotebookRenderer()
    if sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
        return TerminalRenderer()
    return LogRenderer(sys.stderr)


class TerminalRenderer:
    """A bar for each operator at the bottom of a terminal, below all other output. Respects
    NO_COLOR.
    """

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._console = Console(stderr=True, highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=16),
            TimeElapsedColumn(),
            TextColumn("{task.fields[line]}", markup=False),
            console=self._console,
            transient=True,
            # Rows that a program prints into a file would otherwise come to the terminal.
            redirect_stdout=sys.stdout.isatty(),
            redirect_stderr=True,
        )
        self._tasks: list[Any] = []

    def show(self, lines: Sequence[Line]) -> None:
        if not self._tasks:
            self._progress.start()
        self._tasks += [
            self._progress.add_task(line.name, total=None, line="")
            for line in lines[len(self._tasks) :]
        ]
        for task, line in zip(self._tasks, lines):
            total = None if line.done is None else 1.0
            self._progress.update(
                task, total=total, completed=line.done or 0.0, description=line.name, line=line.text
            )

    def end(self, lines: Sequence[Line]) -> None:
        self._progress.stop()
        for line in lines:
            self._console.print(str(line), markup=False)


class NotebookRenderer:
    def __init__(self) -> None:
        from IPython.display import display

        self._shown = ""
        self._handle: Any = display(_plain("Flink starts"), raw=True, display_id=True)  # type: ignore[no-untyped-call]

    def show(self, lines: Sequence[Line]) -> None:
        text = "\n".join(map(str, lines))
        if text != self._shown:
            self._shown = text
            self._handle.update(_plain(text), raw=True)

    def end(self, lines: Sequence[Line]) -> None:
        self.show(lines)


class LogRenderer:
    """A line after `FIRST_S`, then one every `EVERY_S` where anything changed, and every `_AGAIN_S`
    where nothing did.
    """

    def __init__(self, stream: TextIO, now: Any = time.monotonic) -> None:
        self._stream = stream
        self._now = now
        self._due = now() + FIRST_S
        # By the place of a line, this is the line that was last written there, and when.
        self._written: dict[int, tuple[Line, float]] = {}

    def show(self, lines: Sequence[Line]) -> None:
        now = self._now()
        if now < self._due:
            return
        self._due = now + EVERY_S
        news = {place: line for place, line in enumerate(lines) if self._is_news(place, line, now)}
        self._written.update((place, (line, now)) for place, line in news.items())
        self.end(list(news.values()))

    def _is_news(self, place: int, line: Line, now: float) -> bool:
        if place not in self._written:
            return True
        before, written = self._written[place]
        # The text of an idle line changes with each second, although nothing has happened.
        return now - written >= _AGAIN_S or not (
            line == before or (line.is_idle and before.is_idle)
        )

    def end(self, lines: Sequence[Line]) -> None:
        for line in lines:
            print_line(self._stream, str(line))


# `show` puts lines in place of the former ones, and the lines of `end` stay.
Renderer = Union[TerminalRenderer, NotebookRenderer, LogRenderer]


def _plain(text: str) -> dict[str, str]:
    return {"text/plain": text}
