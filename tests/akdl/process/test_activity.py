"""What a script is said to do, from where its main thread stands."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest

from akdl.process import activity as module
from akdl.process.activity import activity
from akdl.wire import AWAITING, CALLING, IMPORTING, READING, STILL, WORKING
from tests.support.leftovers import DEADLINE_S, wait_until

_SCRIPT, _ROWS, _NEXT, _EXECUTE = (
    "/work/train.py",
    "/work/.akdl/lib/akdl/rows/batches.py",
    "/x/data/ops/iterator_ops.py",
    "/x/tensorflow/execute.py",
)
_IMPORT = "<frozen importlib._bootstrap>"
_ARRIVAL = "/work/.akdl/lib/akdl/rows/arriving_rows.py"


def _called_through(*paths: str) -> Any:
    """Return the innermost frame of calls through functions `step` in these files, the last one
    innermost.
    """
    frames: list[Any] = []
    call: Callable[[], object] = lambda: frames.append(sys._getframe())  # noqa: E731
    for path in reversed(paths):
        code = compile("def step():\n    call()\n", path, "exec")
        names: dict[str, Any] = {"call": call}
        exec(code, names)
        call = names["step"]
    call()
    return frames[0].f_back


@pytest.mark.parametrize(
    ("paths", "waits", "runs", "found"),
    [
        ([_SCRIPT], False, False, WORKING),  # it sleeps, or uses a connection of its own
        ([_SCRIPT, _EXECUTE], False, True, CALLING),
        ([_SCRIPT, _EXECUTE], False, False, STILL),
        # collectives of gloo, and of XLA
        ([_SCRIPT, "/x/torch/distributed/distributed_c10d.py"], False, False, STILL),
        ([_SCRIPT, "/x/jax/_src/array.py"], False, False, STILL),
        ([_SCRIPT, _EXECUTE], True, True, CALLING),  # TensorFlow reads ahead, and computes
        ([_SCRIPT, _EXECUTE], True, False, AWAITING),
        ([_SCRIPT, _NEXT, _EXECUTE], False, True, READING),
        ([_SCRIPT, _NEXT, _EXECUTE], False, False, READING),
        ([_SCRIPT, _NEXT, _EXECUTE], True, False, AWAITING),
        ([_SCRIPT, _ROWS], False, True, READING),
        ([_SCRIPT, _ROWS, _ARRIVAL], True, True, AWAITING),  # a thread stores the rows that come
        ([_SCRIPT, _EXECUTE, "/python3.11/threading.py"], False, False, STILL),
        # our callbacks
        ([_SCRIPT, _EXECUTE, "/work/.akdl/lib/akdl/keras/keras_fit.py"], False, False, WORKING),
        # a module of the script's that trains when it is imported
        ([_IMPORT, _SCRIPT], False, False, WORKING),
        ([_NEXT, _SCRIPT], False, False, WORKING),  # a function of the script that TensorFlow calls
    ],
)
def test_an_activity_follows_from_the_calls(
    monkeypatch: pytest.MonkeyPatch, paths: list[str], waits: bool, runs: bool, found: int
) -> None:
    monkeypatch.setattr(module, "_runs", lambda: runs)
    monkeypatch.setattr(
        sys,
        "_current_frames",
        lambda: {module.threading.main_thread().ident: _called_through(*paths)},
    )
    assert activity("/work", waits) == (found, "step (train.py)")


def test_functions_of_a_script_below_a_folder_named_akdl_are_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_runs", lambda: True)
    calls = _called_through("/data/akdl/work/train.py", "/data/akdl/work/.akdl/lib/akdl/wire.py")
    monkeypatch.setattr(
        sys, "_current_frames", lambda: {module.threading.main_thread().ident: calls}
    )
    assert activity("/data/akdl/work", False)[1] == "step (train.py)"


def test_import_of_the_main_script_counts_as_importing(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_main() -> Any:
        return sys._getframe()

    code = find_main.__code__.replace(co_filename="/x/akdl/entry.py")
    frame = types.FunctionType(code, {"sys": sys})()
    monkeypatch.setattr(
        sys, "_current_frames", lambda: {module.threading.main_thread().ident: frame}
    )
    assert activity("/work", True) == (IMPORTING, "")


def test_import_inside_a_function_counts_as_importing(monkeypatch: pytest.MonkeyPatch) -> None:
    innermost = _called_through(_SCRIPT, _IMPORT, _EXECUTE)
    monkeypatch.setattr(
        sys, "_current_frames", lambda: {module.threading.main_thread().ident: innermost}
    )
    assert activity("/work", False) == (IMPORTING, "")


def test_threads_run_or_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            pass

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        wait_until(module._runs, "the thread runs")
    finally:
        over.set()
        thread.join()
    wait_until(lambda: not module._runs(), "all others wait")
    monkeypatch.setattr(module.glob, "iglob", lambda pattern: iter(()))
    assert module._runs(), "where the system has no list"


def test_a_gpu_may_work_while_the_process_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = _called_through(_SCRIPT, _EXECUTE)
    monkeypatch.setattr(module, "_runs", lambda: False)
    monkeypatch.setattr(
        sys, "_current_frames", lambda: {module.threading.main_thread().ident: frame}
    )
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert activity("/work", False)[0] == CALLING
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert activity("/work", False)[0] == STILL


def test_frames_are_taken_without_a_collection_of_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would wait for a lock that the interpreter holds meanwhile."""
    enabled: list[bool] = []
    monkeypatch.setattr(
        sys, "_current_frames", lambda: dict(enumerate([enabled.append(gc.isenabled())]))
    )
    module.current_frames()
    assert enabled == [False] and gc.isenabled()


# At some distance to the next collection, it begins in the middle of the call. The frame of a
# function that has just begun has no object yet, so the call makes one.
LOOKS_AMONG_GARBAGE = """
import gc, threading
from akdl.process.activity import current_frames

def look(distance):
    gc.set_threshold(0)
    garbage = [threading.local()]
    garbage.append(garbage)
    del garbage
    gc.set_threshold(gc.get_count()[0] + distance)
    current_frames()

for distance in range(10):
    look(distance)
"""


@pytest.mark.fault("jobs", "A collection of garbage while stacks are read does not stop a script")
def test_garbage_with_locals_of_threads_does_not_stop_a_look() -> None:
    subprocess.run([sys.executable, "-c", LOOKS_AMONG_GARBAGE], check=True, timeout=DEADLINE_S)
