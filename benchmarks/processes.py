"""Processor time and memory of a program's processes, by kind. Linux only.

"driver" is this process, in which a local job runs Flink's Python functions too; "jvm" is Flink;
"tensorflow" is a process that runs a script or holds a model. Other processes are not counted.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping
from typing import Any

KINDS = ("driver", "jvm", "tensorflow")
_TENSORFLOW = {"akdl.entry", "akdl.serving.model_server"}


def processes() -> Iterator[tuple[str, Any]]:
    """Yield the kind and the `psutil.Process` of this process and of all that it has started."""
    import psutil

    own = psutil.Process()
    yield "driver", own
    for process in own.children(recursive=True):
        try:
            command = process.cmdline()
        except psutil.ZombieProcess:
            yield "tensorflow", process  # it has ended, and its parent has not yet waited for it
            continue
        except psutil.Error:
            continue
        if _TENSORFLOW & set(command):
            yield "tensorflow", process
        elif command and "java" in command[0]:
            yield "jvm", process


def processor_seconds() -> dict[str, float]:
    """Return the processor seconds so far by kind, and under "kind, kernel" the part spent in the
    kernel.

    A TensorFlow process has ended by the end of its job, and the system adds the seconds of an
    awaited child to its parent's total for children. The driver has no other children that work, so
    the difference of two calls misses no process.
    """
    import psutil

    used: dict[str, float] = collections.Counter()
    for kind, process in processes():
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        ended = "tensorflow" if kind == "driver" else kind
        used[kind] += times.user + times.system
        used[f"{kind}, kernel"] += times.system
        used[ended] += times.children_user + times.children_system
        used[f"{ended}, kernel"] += times.children_system
    return dict(used)


def all_processes(used: Mapping[str, float]) -> float:
    """Return the sum over all kinds of the result of `processor_seconds`."""
    return sum(used.get(kind, 0.0) for kind in KINDS)


def resident_mb() -> dict[str, float]:
    """Return the resident memory by kind."""
    import psutil

    found: dict[str, float] = collections.Counter()
    for kind, process in processes():
        try:
            found[kind] += process.memory_info().rss / 1e6
        except psutil.Error:
            continue
    return dict(found)


def peak_mb(pid: int) -> float:
    """Return the peak resident memory of a process; StopIteration or OSError if it has just
    ended.
    """
    with open(f"/proc/{pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024
