"""Ctrl-C, and the interrupt of a notebook, while a job is being sent.

An interrupted call of the JVM goes on there. A job whose sending was interrupted would run, and nobody could cancel it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Put off an interrupt until the end of the block; it is raised there, as if it came then.

    Python delivers interrupts to the main thread only, so in other threads this does nothing.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    noted: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: noted.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if noted:
            before(*noted[0])
