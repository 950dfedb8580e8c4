"""The folder in which the tasks of one host find the process that serves their model.

The process reads a named pipe in it, and each task holds a writing end: when the last task has
ended, even by SIGKILL, the process sees the end of the pipe and exits. So tasks can start and end
in any order.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from io import FileIO

import psutil

from akdl.storage import locked_folder
from akdl.wire.service import ADDRESS_FILE
from bridge.host.places import model_place, socket_address

PIPE = "alive"
_LAST_BYTES = 8000
_PROCESS_FILE = "process"


class ProcessFolder:
    """Folder of one group on this host, as a task sees it. Making the object touches no file.

    It has the pipe, the socket or address of the process, its log, and its work folder. The process
    removes the folder at its end; one that was killed leaves it to the next start on the host.
    """

    def __init__(self, group: str) -> None:
        self.path = f"{model_place()}/{group}"
        self.log = f"{self.path}/log"
        """What the process prints."""
        self._address_file = f"{self.path}/{ADDRESS_FILE}"
        self._socket_file = f"{self.path}/model.sock"
        self.socket = socket_address(self._socket_file)
        """Address of the process's unix socket; None where the path is too long for one."""
        self._group = group

    def join(self, start: Callable[[int], None]) -> FileIO:
        """Return a writing end of the pipe of a running process, which keeps the process alive.

        `start` is called with the reading end if no process runs. The folder is locked meanwhile,
        so that tasks which join at the same time start only one.
        """
        with locked_folder.locked(self.path):
            writing = FileIO(self._opened(start), "w")
        with _lock:
            _held.setdefault(self._group, []).append(writing)
        return writing

    def leave(self, pipe: FileIO) -> None:
        """Close a writing end of the pipe. Safe to call twice, and after `release`."""
        # The object closes its descriptor once: the next task may have one with the same number.
        pipe.close()
        with _lock, suppress(ValueError):
            _held.get(self._group, []).remove(pipe)

    def has_process(self) -> bool:
        """Return True if a process has the reading end of the pipe open."""
        # Without a reader, opening a named pipe for writing fails, if it must not wait for one.
        try:
            os.close(os.open(f"{self.path}/{PIPE}", os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return False
        return True

    @property
    def address(self) -> str | None:
        """Address of the process; None until it has reported one."""
        if self.socket is not None:
            return self.socket
        try:
            with open(self._address_file, encoding="ascii") as file:
                return file.read()
        except FileNotFoundError:
            return None

    @property
    def has_listened(self) -> bool:
        """True once the process that was started last has listened."""
        return os.path.exists(self._address_file if self.socket is None else self._socket_file)

    def forget_address(self) -> None:
        """Remove the address of an earlier process, before the next one starts."""
        for path in (self._address_file, self._socket_file):
            with suppress(FileNotFoundError):
                os.remove(path)

    def last_lines(self) -> str:
        with open(self.log, "rb") as file:
            file.seek(max(0, os.path.getsize(self.log) - _LAST_BYTES))
            return file.read().decode("utf-8", "replace")

    def remove_unused(self) -> None:
        """Remove the folder of a process that has ended, unless a task is about to join or to start
        another one.
        """
        locked_folder.remove_unused(self.path, is_used=self.has_process)

    def empty(self) -> None:
        locked_folder.remove(self.path)

    def _opened(self, start: Callable[[int], None]) -> int:
        pipe = f"{self.path}/{PIPE}"
        with suppress(FileExistsError):
            os.mkfifo(pipe, 0o600)
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            # ENXIO means that the pipe has no reader, so there is no process yet.
            if error.errno != errno.ENXIO:
                raise
        # The reading end is opened first, as the writing end cannot be opened without one. It does
        # not wait for a writer here, but the process has to wait, so it blocks from then on.
        reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        writing = os.open(pipe, os.O_WRONLY)
        try:
            os.set_blocking(reading, True)
            start(reading)
        except BaseException:
            os.close(writing)
            raise
        finally:
            os.close(reading)
        return writing


def release(groups: Collection[str]) -> None:
    """Release all processes of these groups that tasks in this Python process hold; for the end of
    their job.
    """
    with _lock:
        pipes = [pipe for group in groups for pipe in _held.pop(group, [])]
    # These processes see the end of their pipes now. One that is stopped cannot, so it is killed
    # below.
    for pipe in pipes:
        pipe.close()
    for group in groups:
        kill_stopped(f"{model_place()}/{group}")


def note_process(folder: str, pid: int) -> None:
    """Note the number of a process in its folder, with its start, as the system reuses numbers."""
    # The process may have ended at once, which its caller finds out.
    with suppress(psutil.Error):
        started = psutil.Process(pid).create_time()
        with open(f"{folder}/{_PROCESS_FILE}", "w", encoding="ascii") as file:
            file.write(f"{pid} {started!r}")


def kill_stopped(folder: str) -> None:
    """Kill the process of a folder if it is stopped (SIGSTOP): it would not see that it is no
    longer needed.
    """
    process = process_of(folder)
    with suppress(psutil.Error):
        if process is not None and process.status() in (
            psutil.STATUS_STOPPED,
            psutil.STATUS_TRACING_STOP,
        ):
            kill(process)


def process_of(folder: str) -> psutil.Process | None:
    """Process of a folder; None when it has ended, even if another process has its number."""
    try:
        with open(f"{folder}/{_PROCESS_FILE}", encoding="ascii") as file:
            pid, started = file.read().split()
        process = psutil.Process(int(pid))
        # The system gives numbers of ended processes to others, so the time of the start has to be
        # equal too.
        return process if repr(process.create_time()) == started else None
    except (OSError, ValueError, psutil.Error):
        return None


def kill(process: psutil.Process) -> None:
    """Kill a process and its group, which has its number, since it leads a session of its own."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


_held: dict[str, list[FileIO]] = {}
"""Group to the writing ends of tasks in this Python process."""
_lock = threading.Lock()
