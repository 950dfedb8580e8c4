"""Beam's worker in a test's own thread, without Flink; the real one loses its line to Flink once in
many cancelled jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

from apache_beam.runners.worker.sdk_worker import SdkHarness

from bridge.workarounds.beam_workers import fix_workers


class Worker(SdkHarness):
    """A worker that opens functions, and then its line ends, or breaks.

    Args:
        work: What it does while it has a line.
        error: How the line breaks; None where it ends.
    """

    def __init__(self, work: Callable[[], object], error: Exception | None = None) -> None:
        self._responses, self._data_channel_factory, self._state_handler_factory = (
            Mock(),
            Mock(),
            Mock(),
        )
        self._bundle_processor_cache = Mock()
        self._work, self._error = work, error
        self._alive = True
        fix_workers()

    def lose_line(self) -> None:
        """Lose it while the work goes on."""
        self._alive = False

    def _akdl_run(self) -> None:
        self._work()
        self._alive = False
        if self._error is not None:
            raise self._error
