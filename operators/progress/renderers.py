"""Renderers of progress: bars on a terminal, one changing line in a notebook, lines at intervals in
a log.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO, Union

from bridge.host.console import print_line
from operators.progress.state import Line

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
