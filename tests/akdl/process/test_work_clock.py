"""Processor time that counts as work: the threads of the process are found in other places."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from akdl.process import work_clock
from akdl.process.work_clock import WorkClock, script_stacks
from tests.support.leftovers import wait_until


@contextmanager
def _in_a_thread(step: Callable[[], object], name: str = "script") -> Iterator[None]:
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            step()

    thread = threading.Thread(target=run, name=name)
    thread.start()
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


def test_computing_thread_counts_as_working() -> None:
    with _in_a_thread(
        lambda: json.loads(json.dumps(sorted(range(2000), key=lambda each: -each), indent=1))
    ):
        assert _looks(0.3) > 0.05


def test_observing_threads_do_not_count_as_working() -> None:
    with _in_a_thread(
        lambda: json.loads(json.dumps(sorted(range(2000), key=lambda each: -each), indent=1)),
        "akdl-activity",
    ):
        assert _looks(0.3) < 0.05


def test_thread_that_stays_in_one_call_does_not_count_as_working() -> None:
    with _in_a_thread(lambda: hashlib.pbkdf2_hmac("sha256", b"", b"", 3_000_000)):
        assert _looks(0.3) < 0.05


def test_stacks_are_those_of_the_main_thread_and_the_threads_of_the_script(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # other tests of this process leave some
    monkeypatch.setattr(work_clock, "_MOST_THREADS", 10_000)
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
