"""Forks members of groups on demand: each has TensorFlow at once, which takes three seconds of processor time to import.

A line of standard input is what would follow `python` on a command line, with variables, the folder and the log of a new process,
answered with its id; or a process id, answered with the exit status, null while the process runs. The end of the input is the end.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import sys
import traceback
from typing import Any


def serve() -> None:
    gc.set_threshold(50_000, 20, 20)  # see akdl.entry
    import tensorflow  # noqa: F401

    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(_start(**request) if isinstance(request, dict) else _status(request)), flush=True)


def _start(command: list[str], variables: dict[str, str], folder: str, log: str) -> int:
    pid = os.fork()
    if pid == 0:
        status: Any = 1
        try:
            os.environ.update(variables)
            status = _be_member(command, folder, log)
        finally:
            os._exit(status)
    return pid


def _be_member(command: list[str], folder: str, log: str) -> int:
    """Live as a process of its own would, and return the exit status."""
    os.setsid()
    os.chdir(folder)
    for path, flags, descriptors in ((os.devnull, os.O_RDONLY, [0]), (log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, [1, 2])):
        for descriptor in descriptors:
            os.dup2(os.open(path, flags), descriptor)
    status = 0
    try:
        if command[0] == "-m":
            sys.argv = command[1:]
            runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = command
            sys.path[0] = os.path.dirname(command[0])
            runpy.run_path(command[0], run_name="__main__")
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def _status(pid: int) -> int | None:
    done, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if done else None


if __name__ == "__main__":
    serve()
