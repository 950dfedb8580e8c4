"""What every process of ours has from its parent: variables that only it may read, and a pipe that closes with it."""

import os
import threading
from typing import Callable, Mapping


def take_settings(environment: "os._Environ[str]") -> Mapping[str, str]:
    """Read our variables and remove them, so that nothing the process starts can speak in its name."""
    names = [name for name in environment if name.startswith("AKDL_")]
    return {name: environment.pop(name) for name in names}


def exit_with_parent(pipe: int, clean_up: Callable[[], None], status: int) -> None:
    """Watch a pipe that nobody writes to, from a thread: when the parent has closed its end or died, clean up and exit at once.

    Args:
        pipe: Descriptor of our end.
        clean_up: Called before.
        status: To exit with.
    """

    def watch() -> None:
        while os.read(pipe, 1):
            pass
        try:
            clean_up()
        finally:
            os._exit(status)

    os.set_inheritable(pipe, False)
    threading.Thread(target=watch, name="akdl-parent", daemon=True).start()
