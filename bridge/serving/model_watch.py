"""Calls of a model process that end: a process that makes no progress is killed, as it may be stopped, or wait for itself."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Any

import grpc
import psutil

from bridge.member.progress import ProgressWatch

LOOK_S = 1.0
_FILE = "process"


class Stalled(Exception):
    """The process made no progress, and was killed."""


def note_process(folder: str, pid: int) -> None:
    """Write down which process serves the model in a folder, for the tasks that find it there."""
    with contextlib.suppress(psutil.Error):  # it has ended at once, which shows elsewhere
        started = psutil.Process(pid).create_time()
        with open(os.path.join(folder, _FILE), "w", encoding="ascii") as file:
            file.write(f"{pid} {started!r}")


def result_of(call: Any, folder: str, stall_timeout_s: float) -> Any:
    """Wait for the answer to a call.

    Args:
        call: A gRPC call that is on its way.
        folder: Of the process.
        stall_timeout_s: Seconds for which the process may use no processor before it is killed; 0 for no limit.

    Raises:
        grpc.RpcError: The call failed.
        Stalled: See `stall_timeout_s`.
    """
    process = _process(folder)
    watch = ProgressWatch(time.monotonic())
    while True:
        try:
            return call.result(timeout=LOOK_S)
        except grpc.FutureTimeoutError:
            pass
        cpu_s = 0.0
        with contextlib.suppress(psutil.Error):
            if process is not None:
                times = process.cpu_times()
                cpu_s = times.user + times.system
        watch.look(time.monotonic(), 0, cpu_s)
        if process is not None and stall_timeout_s and watch.idle_s > stall_timeout_s:
            _kill(process)
            raise Stalled


def kill_stopped(folder: str) -> None:
    """Kill the process of a folder if somebody has stopped it: it would not see that nobody needs it any more."""
    process = _process(folder)
    with contextlib.suppress(psutil.Error):
        if process is not None and process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP):
            _kill(process)


def _process(folder: str) -> psutil.Process | None:
    """Return the process of a folder; None when it has ended, though its number may live on in another one."""
    try:
        with open(os.path.join(folder, _FILE), encoding="ascii") as file:
            pid, started = file.read().split()
        process = psutil.Process(int(pid))
        return process if repr(process.create_time()) == started else None
    except (OSError, ValueError, psutil.Error):
        return None


def _kill(process: psutil.Process) -> None:
    """Kill a process and its group, which it leads."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
