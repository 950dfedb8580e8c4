"""Processor time that counts as work: the threads of the process are found in other places."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from akdl.process import activity
from akdl.process.activity import WorkClock, script_stacks
from tests.support.leftovers import wait_until
from tests.support.own_process import in_own_process


def _functions(thread: threading.Thread) -> set[str]:
    """Names of the functions in which a thread is."""
    frames = traceback.walk_stack(sys._current_frames().get(thread.ident or 0))
    return {frame.f_code.co_name for frame, _ in frames}


@contextmanager
def _in_a_thread(step: Callable[[], object], name: str) -> Iterator[None]:
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            step()

    thread = threading.Thread(target=run, name=name)
    thread.start()
    # A thread that has not come to its call yet would be found in other places too.
    wait_until(lambda: step.__name__ in _functions(thread), "the thread is in its call")
    yield
    over.set()
    thread.join()


def _looks(cpu_s: float) -> float:
    """Look often until this process has used so much processor time, and return what counts as
    work.
    """
    clock, start = WorkClock(), time.process_time()
    while time.process_time() - start < cpu_s:
        time.sleep(0.01)
        worked_s = clock.look()
    return worked_s


def _compute() -> None:
    json.loads(json.dumps(sorted(range(2000), key=lambda each: -each), indent=1))


def _stay_in_one_call() -> None:
    hashlib.pbkdf2_hmac("sha256", b"", b"", 3_000_000)


def _looks_beside(step: Callable[[], object], name: str) -> float:
    with _in_a_thread(step, name):
        return _looks(0.3)


def test_computing_thread_counts_as_working() -> None:
    assert in_own_process(_looks_beside, _compute, "script") > 0.05


def test_observing_threads_do_not_count_as_working() -> None:
    assert in_own_process(_looks_beside, _compute, "akdl-activity") < 0.05


def test_thread_that_stays_in_one_call_does_not_count_as_working() -> None:
    assert in_own_process(_looks_beside, _stay_in_one_call, "script") < 0.05


def test_stacks_are_those_of_the_main_thread_and_the_threads_of_the_script(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # other tests of this process leave some
    monkeypatch.setattr(activity, "_MOST_THREADS", 10_000)
    with ThreadPoolExecutor(1, "akdl-own") as own, ThreadPoolExecutor(1, "reader") as script:
        over = threading.Event()
        script.submit(over.wait)

        def found() -> dict[str, str]:
            stacks = own.submit(script_stacks).result()
            return dict(each.split(":\n", 1) for each in f"\n{stacks}".split("\nThread ")[1:])

        try:
            wait_until(
                lambda: found().get("reader_0", "").endswith("in wait"),
                "the thread of the script waits",
            )
            stacks = found()
        finally:
            over.set()
    assert stacks["MainThread"].startswith("  File ")
    assert not any(name.startswith("akdl-") for name in stacks)
