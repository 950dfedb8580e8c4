"""What a user sees of an error that nobody caught; that jobs fail so is shown in
tests/e2e/test_error_lines.py.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import grpc
import pytest

import operators  # noqa: F401  installs the hooks
from akdl.near_names import near
from akdl.serving.loaded_model import RowsError
from bridge.exceptions import ConfigurationError, TaskError
from operators.errors.uncaught import lines_of, show_briefly
from tests.support.deadline import DEADLINE_S

FAILED = "Op, chief 0 (s.py): the script failed: KeyError: 'scor'\n  File \"s.py\", line 6, in main\n    large = helper(rows)"


def shown(error: BaseException) -> list[str] | None:
    def a_function_of_the_user() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        a_function_of_the_user()
    return lines_of(caught.value, caught.value.__traceback__)


def failed_task() -> TaskError:
    error = TaskError(FAILED)
    error.details = f"{FAILED}\nand more"
    return error


@pytest.mark.parametrize(
    "program",
    [
        "from operators import *\nToTensorBatchOp()",
        "from operators import ToTensorBatchOp",
        "import operators\noperators.ToTensorBatchOp",
    ],
)
def test_missing_operator_of_alink_is_answered_with_its_replacement(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import operators\n{program}"], capture_output=True, text=True
    )
    assert "ToTensorBatchOp" in done.stderr and done.returncode == 1
    assert ": use the method toTensor of a BatchOperator or StreamOperator\n" in done.stderr
    assert (
        shown(NameError("name 'x' is not defined"))
        is None
        is shown(AttributeError("'int' object has no attribute 'XBatchOp'"))
    )


def test_the_message_comes_first_then_where_the_program_called() -> None:
    assert shown(failed_task())[:4] == [
        f"bridge.exceptions.TaskError: {FAILED}".splitlines()[0],
        *FAILED.splitlines()[1:],
        "Called from:",
    ]
    assert shown(failed_task())[-2:] == [
        f'  File "{__file__}", line {shown.__code__.co_firstlineno + 2}, in a_function_of_the_user', "    raise error",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "error", [ConfigurationError("x\n" * 99), RowsError([(0, "y" * 9_000)]), failed_task()]
)
def test_errors_of_each_package_are_short(error: Exception) -> None:
    lines = shown(error)
    # The line of the progress stands above them, and a screen shows 15 lines at once.
    assert lines is not None and len(lines) <= 14 and sum(map(len, lines)) < 3_000


def test_whole_traceback_is_shown_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AKDL_TRACEBACK", "full")
    assert shown(failed_task()) is None


def test_errors_of_other_programs_are_not_changed() -> None:
    assert shown(KeyError("scor")) is None
    assert shown(KeyboardInterrupt()) is None, "of a program that does not wait for us"


def test_an_interrupt_while_we_wait_has_no_frames_of_ours() -> None:
    def interrupted() -> Iterator[str]:
        yield "a"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        near("b", interrupted())  # stands for what waits
    lines = lines_of(caught.value, caught.value.__traceback__)
    assert (
        lines is not None and lines[:2] == ["KeyboardInterrupt", "Called from:"] and len(lines) == 6
    )


def test_hooks_call_the_earlier_hooks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    others: list[object] = []
    monkeypatch.setattr(sys, "excepthook", lambda *error: others.append(error[1]))
    monkeypatch.setattr(
        threading, "excepthook", lambda arguments: others.append(arguments.exc_value)
    )
    show_briefly()
    show_briefly()
    foreign, ours = KeyError("scor"), ConfigurationError("numWorkers: expected more")
    for error in (foreign, ours):
        sys.excepthook(type(error), error, None)
        in_thread(lambda error=error: raise_it(error))
    assert others == [foreign, foreign]
    said = capsys.readouterr().err
    line = "bridge.exceptions.ConfigurationError: numWorkers: expected more\n"
    assert (
        said.startswith(f"{line}Exception in thread mine:\n{line}")
        and len(said.splitlines()) <= 2 + 14
    )


def test_broken_connections_of_threads_of_beam_are_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    others: list[object] = []
    monkeypatch.setattr(
        threading, "excepthook", lambda arguments: others.append(arguments.exc_value)
    )
    monkeypatch.setattr(sys, "excepthook", lambda *error: None)
    show_briefly()
    ended = type("Ended", (grpc.RpcError,), {"__module__": "grpc._channel"})()
    for name, error in (("read_state", ended), ("read_state", KeyError("x")), ("mine", ended)):
        in_thread(lambda error=error: raise_it(error), name)
    assert [type(error).__name__ for error in others] == ["KeyError", "Ended"]


def in_thread(run: Callable[[], None], name: str = "mine") -> None:
    thread = threading.Thread(target=run, name=name)
    thread.start()
    thread.join()


def raise_it(error: BaseException) -> None:
    raise error


@pytest.mark.process
def test_ipython_shows_the_same_and_other_errors_as_before() -> None:
    code = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance(colors='NoColor')\n"
        "for cell in ('import operators', 'operators.useLocalEnv(\"two\")', '1 / 0'):\n"
        "    shell.run_cell(cell)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=4 * DEADLINE_S
    )
    ours, _, other = run.stdout.partition(
        "Error: parallelism: expected a whole number of at least 1, got 'two'\n"
    )
    assert ours.endswith("bridge.exceptions.Configuration") and len(ours.splitlines()) == 1, (
        run.stdout + run.stderr
    )
    assert "ZeroDivisionError" in other and "Traceback" in other
    assert other.partition("---")[0].splitlines()[0] == "Called from:"
