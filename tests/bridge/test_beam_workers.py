"""Workers of Beam inside a program end with nothing left."""

from __future__ import annotations

import subprocess
import sys
from unittest.mock import Mock

import pytest

from bridge.beam_workers import close_with_worker, is_worker_process
from tests.support.beam_worker import Worker

pytestmark = pytest.mark.flink


def test_this_program_is_no_worker_process() -> None:
    assert not is_worker_process()


@pytest.mark.process
def test_what_a_worker_logs_after_the_end_of_its_job_is_not_on_the_console() -> None:
    program = (
        "import logging\n"
        "from bridge.beam_workers import fix_workers\n"
        "fix_workers(); fix_workers()\n"
        "logger = logging.getLogger('apache_beam.runners.worker.sdk_worker')\n"
        "logger.error('Error processing instruction')\n"
        "print(len(logger.handlers))\n"
    )
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("1\n", "")


def test_a_worker_whose_line_breaks_closes_what_it_has() -> None:
    close = Mock()
    worker = Worker(lambda: close_with_worker(close), ConnectionError("broken"))
    with pytest.raises(ConnectionError):
        worker.run()
    close.assert_called_once()
    worker._data_channel_factory.close.assert_called_once()
    worker._state_handler_factory.close.assert_called_once()
    worker._bundle_processor_cache.periodic_shutdown.cancel.assert_called_once()


def test_a_function_is_closed_at_the_end_of_its_worker_and_not_before() -> None:
    close = Mock()

    def work() -> None:
        close_with_worker(close)
        close.assert_not_called()

    Worker(work).run()
    close.assert_called_once()


def test_a_function_that_is_open_after_the_end_of_its_worker_is_closed_at_once() -> None:
    close = Mock()

    def work() -> None:
        worker.lose_line()
        close_with_worker(close)
        close.assert_called_once()

    worker = Worker(work)
    worker.run()
    close.assert_called_once()


def test_an_error_of_one_function_leaves_no_other_open() -> None:
    others = Mock()

    def work() -> None:
        for close in (others, Mock(side_effect=OSError("full")), others):
            close_with_worker(close)

    with pytest.raises(OSError, match="full"):
        Worker(work).run()
    assert others.call_count == 2


def test_a_function_without_a_worker_closes_itself() -> None:
    close = Mock()
    close_with_worker(close)
    close.assert_not_called()
