"""Progress of the operators of a job, shown from a thread while the job runs.

The thread belongs to one job. Nothing in it may fail the job, so errors of a look are logged and
the next look tries again.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from akdl.wire.status_pb2 import MemberStatus
from bridge.host.console import say, warn
from bridge.member.status import ENDED
from operators.flink.rest import Rest
from operators.progress.record import Recorder
from operators.progress.renderers import Renderer, renderer
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
