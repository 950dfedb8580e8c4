"""Short display of uncaught akdl errors and interrupts: the message and the user's own lines.

Python shows all other errors. This is the last step of the path of an error: the text comes from
`flink_errors` and `summary`, and the traceback through PyFlink and akdl is left out, because it has
some hundred lines in which the user's own line is lost.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from types import TracebackType
from typing import Any

from bridge.exceptions import BridgeError
from bridge.host.console import print_line
from operators.alink.missing_names import operator_instead
from operators.errors.flink_errors import script_failure, wants_details
from operators.errors.summary import Frame, shortened, summary_of

# The last line of the progress display stands above an error, so 15 lines are visible at once.
LINES = 14
# Each of the user's last calls takes two lines, so a display has room for few.
_CALLS = 2
# These threads of Beam raise when the JVM closes their channels, which happens at the end of each
# local job.
_BEAM_THREADS = ("read_state", "read_grpc_client_inputs")
_PACKAGES = ("akdl", "bridge", "operators")


def lines_of(error: BaseException, trace: TracebackType | None) -> list[str] | None:
    """Display of an uncaught error, at most `LINES` lines; None to keep Python's own.

    Args:
        error: The exception, also of other packages.
        trace: Its traceback, of which the calls outside of akdl are shown.
    """
    if wants_details():
        return None
    # PyFlink may have started Java instead of akdl, so this error was not translated where it was
    # raised.
    if type(error).__module__.startswith("py4j."):
        error = script_failure(str(error)) or error
    # An interrupt in the user's own code keeps Python's display. For one inside of akdl, the user's
    # last calls are enough, because the other frames only wait.
    if isinstance(error, KeyboardInterrupt) and any(
        each.filename.startswith(_ours()) for each in traceback.extract_tb(trace)
    ):
        return [type(error).__name__, *_called_from(trace)]
    if isinstance(error, (NameError, ImportError, AttributeError)):
        hint = operator_instead(str(error), dir(sys.modules["operators"].BatchOperator))
        return [f"{type(error).__name__}: {error}{hint}", *_called_from(trace)] if hint else None
    kind = type(error)
    if kind.__module__.split(".")[0] not in _PACKAGES:
        return None
    message = (
        str(error) if isinstance(error, BridgeError) and error.details else summary_of(str(error))
    )
    calls = _called_from(trace)
    lines = f"{kind.__module__}.{kind.__qualname__}: {message}".splitlines()
    # The message is more important than the calls, of which each takes two lines, so calls get the
    # lines that are left.
    return [*lines, *calls[: 1 + 2 * max((LINES - len(lines) - 1) // 2, 0)]][:LINES]


def _called_from(trace: TracebackType | None) -> list[str]:
    """The user's own last calls."""
    calls = [line for frame in shortened(_callers(trace)[-_CALLS:]) for line in frame]
    return ["Called from:", *calls] if calls else []


def show_briefly() -> None:
    """Install the short display for the program, its threads and IPython. Safe to call twice."""
    if getattr(sys.excepthook, "__module__", "") != __name__:
        _hook_program(sys.excepthook)
        _hook_threads(threading.excepthook)
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    if shell is not None:
        shell.set_custom_exc((Exception, KeyboardInterrupt), _show_in_ipython)


def _hook_program(previous: Any) -> None:
    """Put our display in front of the hook that is installed, which shows all other errors."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        lines = _safely(error, trace)
        if lines is None:
            previous(kind, error, trace)
        else:
            print_line(sys.stderr, "\n".join(lines))

    sys.excepthook = hook


def _hook_threads(previous: Any) -> None:
    """Show uncaught errors of threads, but not the hang-ups of Beam's threads."""

    def hook(arguments: threading.ExceptHookArgs) -> None:
        error = arguments.exc_value
        name = arguments.thread.name if arguments.thread is not None else "unknown"
        is_hung_up = type(error).__module__.startswith("grpc.")
        if name in _BEAM_THREADS and is_hung_up and not wants_details():
            return
        lines = None if error is None else _safely(error, arguments.exc_traceback)
        if lines is None:
            previous(arguments)
        else:
            first = f"Exception in thread {name}:"
            print_line(sys.stderr, "\n".join([first, *lines[: LINES - 1]]))

    threading.excepthook = hook


def _show_in_ipython(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    tb_offset: int | None = None,
) -> None:
    """Display for IPython, which catches exceptions of cells and never calls `excepthook`."""
    lines = _safely(error, trace)
    if lines is None:
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
    else:
        shell._showtraceback(kind, error, lines)


def _safely(error: BaseException, trace: TracebackType | None) -> list[str] | None:
    """Lines of an error; None if they cannot be made, so that Python's own display appears."""
    try:
        return lines_of(error, trace)
    # An error here would hide the error of the user.
    except Exception:
        return None


def _ours() -> tuple[str, ...]:
    """Folders of our packages, to tell our frames from the user's."""
    return tuple(
        os.path.join(path, "") for package in _PACKAGES for path in sys.modules[package].__path__
    )


def _callers(trace: TracebackType | None) -> list[Frame]:
    """Frames of the user's own code, in which a cell of a notebook has no file."""
    ours = _ours()
    frames = []
    for each in traceback.extract_tb(trace):
        frame = Frame(each.filename, each.lineno, each.name, each.line or "")
        is_typed = each.filename.startswith(("<ipython", "<stdin"))
        if is_typed or not (each.filename.startswith(ours) or frame.is_in_a_library):
            frames.append(frame)
    return frames
