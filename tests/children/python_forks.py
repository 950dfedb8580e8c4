"""Forks Pythons on demand: each has TensorFlow or PyFlink at once, which take seconds of processor
time to import.

Programs like `forked_python` ask for them on a socket. Each fork is a session of its own, with the
variables, the folder, the descriptors and the host of who asked. Signals come on the line, the exit
status goes back on it; a fork dies with its line.

Arguments: the descriptor of the socket that listens, and the modules to import. The end of the
    input is the end of all.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import struct
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from typing import Any

_MOST_FDS = 250
_HOST_FDS = 3  # namespaces of files, host name and network come first
# questions, which what the fork has started could not answer
_ONE_PROCESS = (signal.SIGUSR1, signal.SIGUSR2)


@dataclass
class Fork:
    """A process that was forked, and the line to who asked for it."""

    pid: int
    ended: int
    line: socket.socket


def serve(listener: socket.socket) -> dict[str, Any] | None:
    """Fork until the input ends; in a fork, return what it was asked for."""
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ, listener)
    selector.register(0, selectors.EVENT_READ)
    forks: list[Fork] = []
    while True:
        for key, _ in selector.select():
            if key.fd == 0:
                for fork in forks:
                    _kill(fork, signal.SIGKILL)
                return None
            if key.data is listener:
                line, _ = listener.accept()
                request = _request(line)
                if request is None:
                    line.close()
                    continue
                pid = os.fork()
                if pid == 0:
                    for each in (selector, listener, line, *(fork.line for fork in forks)):
                        each.close()
                    for fork in forks:
                        os.close(fork.ended)
                    return request
                for descriptor in request["descriptors"]:
                    os.close(descriptor)
                forks.append(Fork(pid, os.pidfd_open(pid), line))
                selector.register(line, selectors.EVENT_READ, forks[-1])
                selector.register(forks[-1].ended, selectors.EVENT_READ, forks[-1])
            elif key.fd == key.data.ended:
                _reap(key.data, selector)
                forks.remove(key.data)
            elif key.data in forks:
                _forward(key.data, selector)


def _request(line: socket.socket) -> dict[str, Any] | None:
    size, descriptors, _, _ = socket.recv_fds(line, 4, _MOST_FDS)
    with line.makefile("rb") as stream:
        text = stream.read(struct.unpack("!I", size)[0]) if len(size) == 4 else b""
    try:
        return {**json.loads(text), "descriptors": descriptors}
    except ValueError:  # who asked has been killed
        for descriptor in descriptors:
            os.close(descriptor)
        return None


def _forward(fork: Fork, selector: selectors.BaseSelector) -> None:
    numbers = b""
    with contextlib.suppress(ConnectionError):
        numbers = fork.line.recv(64)
    for number in numbers:
        _kill(fork, number)
    if not numbers:
        selector.unregister(fork.line)
        _kill(fork, signal.SIGKILL)


def _kill(fork: Fork, number: int) -> None:
    # it has no group before it is a session
    for kill in (os.kill,) if number in _ONE_PROCESS else (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):
            kill(fork.pid, number)
            return


def _reap(fork: Fork, selector: selectors.BaseSelector) -> None:
    _kill(fork, signal.SIGKILL)  # what it has left in its group
    status = os.waitstatus_to_exitcode(os.waitpid(fork.pid, 0)[1])
    with contextlib.suppress(OSError):
        fork.line.send(b"%d" % status)
    with contextlib.suppress(KeyError):
        selector.unregister(fork.line)
    selector.unregister(fork.ended)
    fork.line.close()
    os.close(fork.ended)


def be(
    executable: str,
    arguments: list[str],
    environment: dict[str, str],
    folder: str,
    numbers: list[int],
    descriptors: list[int],
) -> int:
    """Run a module as a Python of its own would, and return the exit status."""
    import numpy as np

    os.setsid()
    _enter_host(descriptors[:_HOST_FDS])
    free = max(numbers + descriptors) + 1
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, free) for descriptor in descriptors[_HOST_FDS:]]
    os.closerange(3, free)
    for source, number in zip(moved, numbers):
        os.dup2(source, number)
        os.close(source)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    tempfile.tempdir = None
    np.random.seed()
    gc.set_threshold(700, 10, 10)
    sys.executable = executable
    kind = arguments[0] if arguments[0] in ("-m", "-c") else ""
    sys.argv[:] = {"-m": arguments[1:], "-c": ["-c", *arguments[2:]]}.get(kind, arguments)
    own = {"-m": folder, "-c": ""}.get(kind, os.path.dirname(os.path.abspath(arguments[0])))
    sys.path[:0] = [
        own,
        *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)),
    ]
    importlib.invalidate_caches()
    status = 0
    try:
        if kind == "-m":
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        elif kind == "-c":
            exec(arguments[1], {"__name__": "__main__"})
        else:
            runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        if leaving.code is not None and not isinstance(leaving.code, int):
            print(leaving.code, file=sys.stderr)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    return status & 0xFF


def _enter_host(namespaces: list[int]) -> None:
    """Enter those of the namespaces that are not this process's own already."""
    own = {os.stat(f"/proc/self/ns/{name}").st_ino for name in os.listdir("/proc/self/ns")}
    library = ctypes.CDLL(None, use_errno=True)
    for descriptor in namespaces:
        if os.fstat(descriptor).st_ino not in own and library.setns(descriptor, 0):
            raise OSError(ctypes.get_errno(), "setns")


def _end(status: int, imported: set[str]) -> None:
    """End as a Python of its own does, with all closed that is open, but leave modules as they are
    that were imported before the fork: to take them apart takes most of the time of a small
    program.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads
    atexit._run_exitfuncs()
    for name in sys.modules.keys() - imported:
        del sys.modules[name]
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        # the program may have closed or replaced it
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(status)


def main() -> None:
    """Import, then serve."""
    sys.path.pop(0)  # the folder of this file
    gc.set_threshold(50_000, 20, 20)  # see akdl.entry
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()
    imported = set(sys.modules)
    request = serve(socket.socket(fileno=int(sys.argv[1])))
    if request is not None:
        _end(be(**request), imported)


if __name__ == "__main__":
    main()
