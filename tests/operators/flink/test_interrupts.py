"""Interrupts while a job is being sent."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from operators.flink.interrupts import interrupts_later


def test_an_interrupt_comes_at_the_end_of_the_block() -> None:
    before, done = signal.getsignal(signal.SIGINT), False
    with pytest.raises(KeyboardInterrupt):
        with interrupts_later():
            os.kill(os.getpid(), signal.SIGINT)
            done = True
    assert done and signal.getsignal(signal.SIGINT) is before


def test_without_an_interrupt_nothing_is_raised() -> None:
    with interrupts_later():
        pass


def test_another_thread_is_left_alone() -> None:
    handlers = []

    def look() -> None:
        with interrupts_later():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]
