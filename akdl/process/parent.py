"""Ties between a process and its parent: private variables, a pipe that closes with the parent, and
the end of a process whose script has returned.

The kernel closes the parent's end of the pipe however the parent ends, also by SIGKILL, so no
process is left behind on a host. Exit handlers of the parent would not run in that case.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import time
from typing import Callable, Mapping

from akdl.process.preflight import say

# Variables of users. They stay in the environment, where the other ones that begin with AKDL_ are
# for this process alone.
FOR_USERS = (
    "AKDL_ARCHIVE_GB",
    "AKDL_ARCHIVE_MEMBERS",
    "AKDL_ARCHIVE_RATIO",
    "AKDL_DOWNLOAD_GB",
    "AKDL_GROUP_MB",
    "AKDL_TEXT_MB",
    "AKDL_TRACEBACK",
)
# Exit statuses that the parent explains, see bridge/member/script_process.py.
REFUSED_ROWS = 88  # another thread of the script tried to write rows after main had returned
CHANNEL_CLOSED = 89  # the script has closed this end of the pipe, and perhaps the channel
# Seconds until a stopped parent is killed. The group reports a silent member after 30 seconds, so
# by then the cause of the failure is known.
STOPPED_S = 60.0
# Seconds for threads that the script did not join. They count from the moment when the outcome has
# been sent.
LEFT_THREADS_GRACE_S = 5.0
# Seconds between two looks at the pipe, or at the state of the parent.
_LOOK_S = 0.5


def is_private(name: str) -> bool:
    """True for a variable of akdl that belongs to a single process."""
    return name.startswith("AKDL_") and name not in FOR_USERS


def take_settings(environment: "os._Environ[str]") -> Mapping[str, str]:
    """Read our variables and remove them, so that child processes cannot use this process's
    token.
    """
    names = list(filter(is_private, environment))
    return {name: environment.pop(name) for name in names}


def exit_with_parent(pipe: int, clean_up: Callable[[], None], status: int) -> Callable[[], None]:
    """Watch a pipe from a thread, and clean up and exit as soon as the parent has closed its end or
    died.

    A script that closes descriptors which are not its own, as daemons do, closes the pipe and the
    channel too, whose calls fail or wait indefinitely. So the process reports this and exits with
    `CHANNEL_CLOSED`. The function that is returned does so at once, for a call that failed before
    the thread looked.
    """
    # The identity of the pipe, since the script may close its number and open another file under
    # it.
    own = os.fstat(pipe)

    def is_open() -> bool:
        try:
            return os.path.samestat(os.fstat(pipe), own)
        except OSError:
            return False

    def watch() -> None:
        # The wait is short, because closing a descriptor in one thread does not wake another thread
        # that polls it.
        ended = select.poll()
        ended.register(pipe, select.POLLIN)
        while is_open():
            if ended.poll(_LOOK_S * 1000) and is_open() and not os.read(pipe, 1):
                # os._exit, because sys.exit would end this thread only, and exit handlers of the
                # script could wait for a parent that no longer exists.
                try:
                    clean_up()
                finally:
                    os._exit(status)
        # The loop ends only where the script has closed the descriptor.
        exit_if_closed()

    def exit_if_closed() -> None:
        if is_open():
            return
        say(
            "the script closed file descriptors that it did not open, among them the channel to"
            " Flink"
        )
        os._exit(CHANNEL_CLOSED)

    # Children of the script do not inherit the pipe, which is a tie of this process alone.
    os.set_inheritable(pipe, False)
    threading.Thread(target=watch, name="akdl-parent", daemon=True).start()
    return exit_if_closed


def kill_stopped_parent(parent: int, after_s: float) -> None:
    """Kill a parent that has been stopped, as by SIGSTOP. Linux only.

    A stopped Python worker answers nothing and does not end, and Flink waits for it indefinitely,
    even when it cancels the job. Only this process, its child, still runs and can see its state.
    """

    def watch() -> None:
        # Looks are counted and not seconds, because the clock goes on while a machine is suspended,
        # and the parent would seem to have been stopped for all that time.
        looks = 0
        # When the parent has ended, another process becomes the parent, and the thread that watches
        # the pipe ends this one.
        while os.getppid() == parent:
            looks = looks + 1 if _is_stopped(parent) else 0
            if looks * _LOOK_S >= after_s:
                say(
                    f"Flink's Python worker {parent} has been stopped for {after_s:g} s and is"
                    " killed"
                )
                with contextlib.suppress(ProcessLookupError):
                    os.kill(parent, signal.SIGKILL)
                return
            time.sleep(_LOOK_S)

    threading.Thread(target=watch, name="akdl-stopped", daemon=True).start()


def _is_stopped(pid: int) -> bool:
    """Test for the state T; the name of the program in front of it may contain any characters."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b") ")[2].startswith(b"T")
    except OSError:
        return False


def leave_threads_behind(exit_if_lost: Callable[[], None]) -> None:
    """Let the interpreter exit normally, but limit its wait for threads that the script left
    running.
    """
    # Whatever happens next, the script's output must not be lost: os._exit does not flush.
    flush_streams()

    def exit_anyway() -> None:
        left = [thread.name for thread in threading.enumerate() if not thread.daemon]
        say("the script ended but left threads running: {}".format(", ".join(left)))
        # A thread may have tried to write rows meanwhile, and os._exit runs no exit handlers.
        exit_if_lost()
        flush_streams()
        os._exit(0)

    # Python joins the remaining threads before it calls exit handlers, so only another thread can
    # limit the wait. The timer is a daemon, which is not joined.
    timer = threading.Timer(LEFT_THREADS_GRACE_S, exit_anyway)
    timer.daemon = True
    timer.start()


def flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        # The script may have closed the stream, or replaced it by an object without `flush`.
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
