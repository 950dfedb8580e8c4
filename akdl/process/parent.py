"""What every process of ours has from its parent: variables that only it may read, and a pipe that closes with it."""

import contextlib
import os
import select
import sys
import threading
from typing import Callable, Mapping

# Exit statuses that the parent tells in words, see bridge/member/failures.py.
REFUSED_ROWS = 88  # the script's main has returned, and something else of it wanted to write rows
LINE_CLOSED = 89  # the script has closed its process's end of the pipe, and with it perhaps the line
_LOOK_S = 0.5


def take_settings(environment: "os._Environ[str]") -> Mapping[str, str]:
    """Read our variables and remove them, so that nothing the process starts can speak in its name."""
    names = [name for name in environment if name.startswith("AKDL_")]
    return {name: environment.pop(name) for name in names}


def exit_with_parent(pipe: int, clean_up: Callable[[], None], status: int) -> None:
    """Watch a pipe that nobody writes to, from a thread: when the parent has closed its end or died, clean up and exit at once.

    A script that closes descriptors which are not its own, as daemons do, closes the pipe and the line to the parent. Calls on
    the line would wait indefinitely then, so the process says so and exits with `LINE_CLOSED`.

    Args:
        pipe: Descriptor of our end.
        clean_up: Called before.
        status: To exit with.
    """
    own = os.fstat(pipe)

    def is_open() -> bool:
        try:
            return os.path.samestat(os.fstat(pipe), own)  # another file may have got the number
        except OSError:
            return False

    def watch() -> None:
        ended = select.poll()
        ended.register(pipe, select.POLLIN)
        while is_open():
            if ended.poll(_LOOK_S * 1000) and is_open() and not os.read(pipe, 1):
                try:
                    clean_up()
                finally:
                    os._exit(status)
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write("akdl: the script has closed file descriptors that it did not open, with them the line to Flink\n")
            sys.stderr.flush()
        os._exit(LINE_CLOSED)

    os.set_inheritable(pipe, False)
    threading.Thread(target=watch, name="akdl-parent", daemon=True).start()
