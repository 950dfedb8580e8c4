"""Interrupts while an operator is at work: kept, heard while it waits, and never lost."""

from __future__ import annotations

import signal
import threading
import weakref

import pytest

from bridge.interrupts import elsewhere, interrupts_later, waited_for


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_an_interrupt_comes_at_the_end_of_the_block() -> None:
    before, done = signal.getsignal(signal.SIGINT), False
    with pytest.raises(KeyboardInterrupt):
        with interrupts_later():
            with interrupts_later():
                interrupt()
            done = True
    assert done and signal.getsignal(signal.SIGINT) is before


def test_without_an_interrupt_nothing_is_raised() -> None:
    with interrupts_later():
        assert waited_for(lambda: 3) == 3


def test_an_interrupt_where_python_drops_exceptions_is_kept() -> None:
    class Freed:
        def __del__(self) -> None:
            interrupt()

    with pytest.raises(KeyboardInterrupt):
        with interrupts_later():
            freed = Freed()
            reference = weakref.ref(freed, lambda _: interrupt())
            del freed
    assert reference() is None


def test_interrupt_ends_a_wait_at_once_while_the_call_continues() -> None:
    main, goes_on, ended = threading.main_thread().ident, threading.Event(), threading.Event()
    assert main is not None

    def call() -> None:
        signal.pthread_kill(main, signal.SIGINT)
        goes_on.wait()
        ended.set()

    with interrupts_later():
        with pytest.raises(KeyboardInterrupt):
            waited_for(call)
        assert not ended.is_set()
        goes_on.set()
        ended.wait()


def test_interrupt_received_by_another_thread_ends_the_wait() -> None:
    goes_on, ended = threading.Event(), threading.Event()

    def call() -> None:  # in a thread, which sends it to itself
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        goes_on.wait()
        ended.set()

    with interrupts_later():
        with pytest.raises(KeyboardInterrupt):
            waited_for(call)
        assert not ended.is_set()
        goes_on.set()
        ended.wait()


def test_earlier_interrupt_is_raised_instead_of_waiting() -> None:
    called = []
    with interrupts_later():
        interrupt()
        with pytest.raises(KeyboardInterrupt):
            waited_for(lambda: called.append(1))
    assert not called


def test_handler_that_does_not_raise_lets_the_wait_continue() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        with interrupts_later():
            assert (
                waited_for(
                    lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                )
                is None
            )
        assert heard == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


def test_third_interrupt_is_raised_immediately() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt):
        with interrupts_later():
            for number in range(3):
                interrupt()
                reached.append(number)
    assert reached == [0, 1]


def test_errors_of_a_call_are_raised_and_calls_share_one_thread() -> None:
    with interrupts_later(), elsewhere() as thread:
        with pytest.raises(ValueError, match="^three$"):
            thread.wait_for(lambda: (_ for _ in ()).throw(ValueError("three")))
        first, second = (thread.wait_for(threading.get_ident) for _ in range(2))
    assert first == second != threading.get_ident()


def test_interrupts_later_does_nothing_in_another_thread() -> None:
    handlers = []

    def look() -> None:
        with interrupts_later():
            handlers.append(signal.getsignal(signal.SIGINT))
            assert waited_for(threading.get_ident) == threading.get_ident()

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]
