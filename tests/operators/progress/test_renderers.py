"""How lines are shown."""

from __future__ import annotations

import io
import os
import pty
import select
import subprocess
import sys

import pytest

from operators.progress.display import FIRST_S, LOOK_S, SWITCH, LogRenderer, renderer
from operators.progress.state import Line

LINES = [Line("a.py", "training, step 3", 0.5), Line("b.py", "[red]feeding[/red]")]
ON_A_TERMINAL = """
from operators.progress.display import TerminalRenderer, renderer
from operators.progress.state import Line
renders = renderer()
assert isinstance(renders, TerminalRenderer)
renders.show([Line("a.py", "training, step 3", 0.5)])
print("a row")
renders.end([Line("a.py", "10 rows, 2 s")])
"""


def test_log_gets_a_progress_line_at_intervals() -> None:
    now, out = [0.0], io.StringIO()
    log = LogRenderer(out, lambda: now[0])
    for second in range(26):
        now[0] = float(second)
        log.show([Line("a.py", f"at {second}")])
    log.end([Line("a.py", "the end")])
    assert out.getvalue().splitlines() == [
        "a.py: at 4",
        "a.py: at 14",
        "a.py: at 24",
        "a.py: the end",
    ]


def test_first_progress_line_appears_within_five_seconds() -> None:
    assert FIRST_S + LOOK_S < 5


def test_a_log_does_not_repeat_itself() -> None:
    now, out = [0.0], io.StringIO()
    log = LogRenderer(out, lambda: now[0])
    for second in range(100):
        now[0] = float(second)
        waits = Line("a.py", f"Flink starts, {second} s", is_idle=True)
        log.show(
            [waits if second < 80 else Line("a.py", "feeding"), Line("b.py", "training, step 3")]
        )
    assert out.getvalue().splitlines() == [
        "a.py: Flink starts, 4 s", "b.py: training, step 3", "a.py: Flink starts, 64 s", "b.py: training, step 3", "a.py: feeding",
    ]  # fmt: skip


def test_a_log_takes_every_character() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "ascii")
    LogRenderer(stream).end([Line("żółć.py", "feeding")])
    assert raw.getvalue() == b"\\u017c\\xf3\\u0142\\u0107.py: feeding\n"


@pytest.mark.parametrize(
    ("value", "kind"), [("0", "NoneType"), ("off", "NoneType"), ("1", "LogRenderer")]
)
def test_environment_variable_turns_progress_off(
    value: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, value)
    assert type(renderer()).__name__ == kind


@pytest.mark.process
@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}])
def test_terminal_shows_a_bar_and_ends_with_a_summary(variables: dict[str, str]) -> None:
    said = _on_a_terminal(
        {"TERM": "xterm-256color", "COLUMNS": "120", "AKDL_PROGRESS": "1", **variables}
    )
    assert (
        "training, step 3" in said
        and "a row" in said
        and said.rstrip().endswith("a.py: 10 rows, 2 s")
    )
    assert ("\x1b[38" in said or "\x1b[3" in said) == (not variables), repr(said)


def _on_a_terminal(variables: dict[str, str]) -> str:
    terminal, other = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    program = subprocess.Popen(
        [sys.executable, "-c", ON_A_TERMINAL],
        stdin=other,
        stdout=other,
        stderr=other,
        env={**environment, **variables},
    )
    os.close(other)
    said = b""
    while program.poll() is None or select.select([terminal], [], [], 0)[0]:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                said += os.read(terminal, 65536)
            except OSError:  # the other end has been closed
                break
    os.close(terminal)
    assert program.wait() == 0, said
    return said.decode()
