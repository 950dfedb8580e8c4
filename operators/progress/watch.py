"""Shows what the operators of a job do, from a thread, while the job runs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from bridge.host.console import say
from bridge.member.status import MemberStatus
from operators.flink.rest import Rest
from operators.progress.record import Recorder
from operators.progress.renderers import Renderer, renderer
from operators.progress.sources import HereSource, RestSource, Source
from operators.progress.state import OperatorState, Shown

logger = logging.getLogger(__name__)

LOOK_S = 0.5


@contextmanager
def shown(operators: Mapping[str, Shown], rest: Rest | None, says: bool = False) -> Iterator[None]:
    """Show the progress of operators while the block runs.

    Args:
        operators: By the name of their group.
        rest: The cluster that they run on; None where they run in this Python process.
        says: Whether to print here what their processes print there.
    """
    renders = renderer() if any(each.visible for each in operators.values()) else None
    if renders is None and not (says and rest) and not any(each.log_dir for each in operators.values()):
        yield
        return
    groups = {group: each.size for group, each in operators.items()}
    source: Source = HereSource(groups) if rest is None else RestSource(rest, groups)
    watch = Watch(operators, source, renders, says=says and rest is not None, elsewhere=rest is not None)
    thread = threading.Thread(target=watch.run, name="akdl-shown", daemon=True)
    thread.start()
    failed = True
    try:
        yield
        failed = False
    finally:
        watch.stop(failed)
        thread.join()


class Watch:
    """Looks at the members of some operators until it is stopped.

    Args:
        operators: By the name of their group.
        source: Where the statuses of the members come from.
        renders: What shows them; None for nothing.
        says: Whether to print what the processes print.
        elsewhere: Whether they run on a cluster.
    """

    def __init__(
        self, operators: Mapping[str, Shown], source: Source, renders: Renderer | None, says: bool, elsewhere: bool
    ) -> None:
        now = time.monotonic()
        self._operators = operators
        self._source = source
        self._renders = renders
        self._says = says
        self.states = {group: OperatorState(each, now, elsewhere) for group, each in operators.items()}
        self._said: dict[tuple[str, int, int], int] = {}
        self._recorders = {
            group: Recorder(each.log_dir, each.name, group, each.size) for group, each in operators.items() if each.log_dir
        }
        self._visible = [self.states[group] for group, each in operators.items() if each.visible]
        self._over = threading.Event()
        self._failed = False

    def run(self) -> None:
        """Look and show, until `stop` is called."""
        while not self._over.wait(LOOK_S):
            self.look()
            if self._renders is not None:
                self._renders.show([state.line() for state in self._visible])
        self.look(is_last=True)
        for group, recorder in self._recorders.items():
            recorder.end(self.states[group].phase_s, self._failed)
        if self._renders is not None:
            self._renders.end([state.last_line(self._failed) for state in self._visible])

    def stop(self, failed: bool) -> None:
        """Look once more, show the last lines, and end.

        Args:
            failed: Whether the job has failed or was cancelled.
        """
        self._failed = failed
        self._over.set()

    def look(self, is_last: bool = False) -> None:
        """Read the statuses; what cannot be read now may be read later.

        Args:
            is_last: This is the last look.
        """
        found: list[MemberStatus] = []
        try:
            found = self._source.read(is_last)
        except Exception as error:  # nothing that is shown may fail a job
            logger.debug("cannot tell the progress: %s: %s", type(error).__name__, error)
        now = time.monotonic()
        for group, state in self.states.items():
            own = [each for each in found if each.group == group]
            state.look(now, own)
            if group in self._recorders:
                self._recorders[group].look(state.members, is_last)
            if self._says:
                for each in own:
                    self._say(each)

    def _say(self, member: MemberStatus) -> None:
        """Print the lines that were not printed yet."""
        key = (member.group, member.index, member.attempt)
        said = self._said.get(key, 0)
        name = f"{self._operators[member.group].name}, {member.label}"
        if member.lines_before > said:
            say(f"[{name}] ({member.lines_before - said:,} lines are left out here; they are in its log file beside Flink's)")
        for line in member.lines[max(said - member.lines_before, 0) :]:
            say(f"[{name}] {line}")
        self._said[key] = member.lines_before + len(member.lines)
