"""Calls of a model process that end: a process without progress is killed, as it may be stopped or wait for itself."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import grpc
import psutil

from bridge.folders.process_folder import kill, process_of
from bridge.member.observer import ProgressWatch

LOOK_S = 1.0


class Stalled(Exception):
    """The process made no progress, and was killed."""


def result_of(call: Any, folder: str, stall_timeout_s: float) -> Any:
    """Wait for the answer to a call; kill the process once it has used no CPU for `stall_timeout_s` seconds (0: no limit)."""
    process = process_of(folder)
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
            kill(process)
            raise Stalled
