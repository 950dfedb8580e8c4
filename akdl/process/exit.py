"""The end of a process whose script has returned: a bounded wait for its threads, and a status that
reports lost rows.
"""

import contextlib
import os
import sys
import threading
from typing import Callable

# Seconds for threads that the script did not join. They count from the moment when the outcome has
# been sent.
LEFT_THREADS_GRACE_S = 5.0


def leave_threads_behind(exit_if_lost: Callable[[], None]) -> None:
    """Let the interpreter exit normally, but limit its wait for threads that the script left
    running.
    """
    # Whatever happens next, the script's output must not be lost: os._exit does not flush.
    flush_streams()

    def exit_anyway() -> None:
        left = [thread.name for thread in threading.enumerate() if not thread.daemon]
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(
                "akdl: the script ended but left threads running: {}\n".format(", ".join(left))
            )
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
