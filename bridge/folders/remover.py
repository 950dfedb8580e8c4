"""Small processes that remove a folder once all processes that use it have ended, also by SIGKILL."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence

# Its input ends when no process holds the other end of the pipe any more.
_WHEN_CLOSED = ["/bin/sh", "-c", """trap '' HUP INT TERM; read -r _; exec rm -rf -- "$0" """]
_WHEN_UNLOCKED = """
import fcntl, os, shutil, sys
folder, path = sys.argv[1:]
lock = os.open(path, os.O_RDWR)
fcntl.flock(lock, fcntl.LOCK_EX)
if os.path.exists(path) and os.path.samestat(os.fstat(lock), os.stat(path)):
    shutil.rmtree(folder, ignore_errors=True)
    os.unlink(path)
"""


def remove_when_closed(folder: str) -> int:
    """Remove a folder when the returned descriptor, and all its copies in other processes, are closed."""
    reading, writing = os.pipe()
    try:
        _start([*_WHEN_CLOSED, folder], reading)
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    return writing


def remove_when_unlocked(folder: str) -> None:
    """Remove a folder and its lock file, FOLDER.lock, when no process shares the lock any more."""
    _start([sys.executable, "-I", "-S", "-c", _WHEN_UNLOCKED, folder, f"{folder}.lock"])


def _start(command: Sequence[str], stdin: int = subprocess.DEVNULL) -> None:
    process = subprocess.Popen(
        command, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", start_new_session=True
    )
    threading.Thread(target=process.wait, name="akdl-reap", daemon=True).start()
