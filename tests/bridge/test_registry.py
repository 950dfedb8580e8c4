"""Members that Flink has left without a word are stopped."""

from __future__ import annotations

import subprocess
import sys

import pytest
from apache_beam.runners.worker.sdk_worker import SdkHarness

from bridge import registry
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = pytest.mark.process


class Worker(SdkHarness):
    """Beam's worker as far as a member knows it; the real one loses its line to Flink once in many cancelled jobs."""

    def __init__(self) -> None:
        self._alive = True

    def open_function(self, member: Member) -> None:
        registry.add(member)


class Member:
    """Waits for Flink to call."""

    group, label, thread, unanswered_s, is_stopped = "group", "chief 0", None, 0.0, False

    def stop(self) -> None:
        self.is_stopped = True
        registry.discard(self)


def test_a_member_ends_with_its_worker() -> None:
    gone, there = Worker(), Worker()
    orphan, other = Member(), Member()
    gone.open_function(orphan)
    there.open_function(other)
    gone._alive = False
    wait_until(lambda: orphan.is_stopped, "the member of the worker that has ended is stopped")
    assert not other.is_stopped
    other.stop()


_LOOKING = """
import gc, os, threading
from bridge import registry

class Waits:
    def __init__(self):
        self.me = self  # garbage that only the collector finds
    def __del__(self):
        os.listdir("/")  # lets other threads run, as a call through py4j does

def start_threads():
    while True:
        threading.Thread(target=int).start()

threading.Thread(target=start_threads, daemon=True).start()
gc.set_threshold(1)
for _ in range(3000):
    Waits()
    registry._frame_of(threading.get_ident())
"""


def test_looking_where_threads_stand_does_not_block_the_program() -> None:
    subprocess.run([sys.executable, "-c", _LOOKING], check=True, timeout=2 * DEADLINE_S)
