"""Ctrl-C, and the interrupt of a notebook, while an operator works: each one is raised, at a moment
where it does no harm.

An interrupt during a call of the JVM would leave a job running that cannot be cancelled. In
`__del__`, or in the callbacks of py4j, Python drops the exception. So the handler of the signal
only notes an interrupt, and the exception is raised while the main thread waits for another thread,
and at the end. Long calls of the JVM are therefore made in another thread.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Optional, TypeVar

_Result = TypeVar("_Result")
_Call = Optional[Callable[[], None]]
# The kernel may send a signal to another thread, and Python handles it when the main thread wakes
# up, so a waiting main thread wakes up this often.
_LOOK_S = 0.2
# A user who presses Ctrl-C so often gets the prompt back at once, even if the job continues.
_IMPATIENT = 3


class _Keeper:
    """Store of the interrupts of the main thread; its `note` replaces the signal's handler.

    `note` may run between any two steps of the main thread, so it takes no lock.
    """

    def __init__(self, handler: Callable[[int, FrameType | None], object]) -> None:
        self._handler = handler
        self._noted = 0
        self._count = 0
        # A signal may interrupt the main thread inside of any call. `SimpleQueue.put` is safe even
        # then, while the locks of other queues would block the thread that holds them.
        self.news: SimpleQueue[Any] = SimpleQueue()

    def note(self, number: int, frame: FrameType | None) -> None:
        self._noted = number
        self._count += 1
        if self._count >= _IMPATIENT:
            self.raise_noted()
        self.news.put(None)

    def raise_noted(self) -> None:
        # It is cleared first, because the handler raises, and the end of the block would raise the
        # same interrupt a second time.
        noted = self._noted
        self._noted = 0
        if noted:
            self._handler(noted, None)


# Only the main thread sets it, so it needs no lock.
_keeper: _Keeper | None = None


@contextmanager
def interrupts_later() -> Iterator[None]:
    """Defer interrupts of the main thread in the block; they are raised in `waited_for`, else at
    the end of the outer block.
    """
    global _keeper
    before = (
        signal.getsignal(signal.SIGINT)
        if threading.current_thread() is threading.main_thread()
        else None
    )
    # Only the main thread may set a handler. SIG_IGN and SIG_DFL are not callable: such a program
    # ignores interrupts, or ends at them, and keeps doing so. In an inner block the outer one
    # defers interrupts already.
    if not callable(before) or _keeper is not None:
        yield
        return
    keeper = _keeper = _Keeper(before)
    signal.signal(signal.SIGINT, keeper.note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        _keeper = None
        keeper.raise_noted()


class Elsewhere:
    """A thread for long calls, so that the calling thread can react to interrupts meanwhile.

    The thread is started with the first call and used for all further ones. Calls are made in the
    calling thread outside of `interrupts_later`, and if that is not the main thread.
    """

    def __init__(self) -> None:
        self._keeper = _keeper if threading.current_thread() is threading.main_thread() else None
        self._calls: SimpleQueue[_Call] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def wait_for(self, function: Callable[[], _Result]) -> _Result:
        """Call a function and return its result. KeyboardInterrupt leaves the function running in
        its thread.
        """
        keeper = self._keeper
        # Without a keeper there is nothing to react to: interrupts aren't deferred here, or they
        # reach another thread.
        if keeper is None:
            return function()
        # The queue is replaced before the check, so that an interrupt in between is in the new one.
        news = keeper.news = SimpleQueue()
        keeper.raise_noted()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="akdl-waits", daemon=True)
            self._thread.start()

        def call() -> None:
            try:
                news.put((function(), None))
            except BaseException as error:
                news.put((None, error))

        self._calls.put(call)
        outcome = None
        while outcome is None:
            with suppress(Empty):
                outcome = news.get(timeout=_LOOK_S)
            keeper.raise_noted()
        result, error = outcome
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]

    def elements(self, following: Callable[[], _Result | None]) -> Iterator[_Result]:
        """Yield what `following` returns in the thread, until it returns None."""
        while (element := self.wait_for(following)) is not None:
            yield element

    def close(self) -> None:
        # The thread is not joined, because after an interrupt its call may go on for long. It is a
        # daemon, so it does not hold up the end of the program.
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            # The call refers to the caller's objects, which should not live while this waits.
            del call


def elsewhere() -> closing[Elsewhere]:
    """Context with a thread for several long calls, which ends with the block."""
    return closing(Elsewhere())


def waited_for(function: Callable[[], _Result]) -> _Result:
    """Call a function in another thread, and react to interrupts meanwhile."""
    with elsewhere() as thread:
        return thread.wait_for(function)
