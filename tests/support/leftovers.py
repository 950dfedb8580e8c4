"""What a test must not leave behind: child processes and work folders."""

from __future__ import annotations

import glob
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil

from tests.support.deadline import DEADLINE_S

waits: list[tuple[float, str]] = []
"""Waits of the test that runs: seconds, and the condition."""


def wait_until(condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Poll a condition until it holds; fail when it does not within the deadline.

    A condition may look through folders in which a job works: what vanishes between two of its
    looks, such as an old checkpoint that Flink removes, means "not yet".
    """
    began = time.monotonic()
    try:
        while True:
            vanished = None
            try:
                if condition():
                    return
            except FileNotFoundError as error:
                vanished = error
            if time.monotonic() > began + deadline_s:
                raise AssertionError(f"not within {deadline_s:g} s: {what}") from vanished
            time.sleep(0.02)
    finally:
        waits.append((time.monotonic() - began, what))


def task_processes() -> list[psutil.Process]:
    """Return the TensorFlow processes of ours that live on this machine and descend from this
    process.
    """
    found = []
    for process in psutil.Process().children(recursive=True):
        try:
            if {"akdl.entry", "akdl.serving.model_server", "akdl.serving.saved_model"} & set(
                process.cmdline()
            ) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def suspend(process: psutil.Process) -> None:
    """Stop a process. The system lets one thread take the signal, and until that one runs, the
    others go on.
    """
    process.suspend()
    wait_until(lambda: process.status() == psutil.STATUS_STOPPED, "the process has stopped")


def is_running(pid: int) -> bool:
    """Whether a process runs; an orphan that nobody reaps does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def work_folders() -> set[str]:
    """Return the work folders that exist."""
    return set(glob.glob(os.path.join(tempfile.gettempdir(), "akdl-*")))


def _end_flushers() -> None:
    """End threads that PyFlink leaves, about eight of each local job, and that wake up every second
    for ever.
    """
    for thread in threading.enumerate():
        if type(thread).__name__ == "PeriodicThread" and type(thread).__module__.startswith(
            "pyflink."
        ):
            thread.cancel()


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Fail when the block leaves a process or a work folder of ours."""
    before = work_folders()
    yield
    _end_flushers()
    try:
        wait_until(lambda: not task_processes(), "no TensorFlow process is left")
    except AssertionError:
        for process in task_processes():  # or all later tests fail too
            process.kill()
        raise
    try:
        wait_until(lambda: work_folders() <= before, "no work folder is left")
    except AssertionError as error:
        left = [
            path
            for folder in work_folders() - before
            for path in glob.glob(f"{folder}/**", recursive=True, include_hidden=True)
        ]
        raise AssertionError(
            f"{error}: {sorted(left)[:50]}; in them run {_processes_in(work_folders() - before)}"
        ) from None


def _processes_in(folders: set[str]) -> list[str]:
    """Return the processes of this machine, also of others than this one, that work in one of these
    folders.
    """
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(process.cwd().startswith(folder) for folder in folders):
                found.append(
                    f"{process.pid}, child of {process.ppid()}: {' '.join(process.cmdline())}"
                )
    return found
