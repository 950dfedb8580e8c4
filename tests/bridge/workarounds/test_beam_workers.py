"""Workers of Beam inside a program end with nothing left."""

from __future__ import annotations

import logging
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from unittest.mock import Mock

import grpc
import pytest
from apache_beam.portability.api.org.apache.beam.model.fn_execution.v1 import beam_fn_api_pb2_grpc
from apache_beam.runners.worker.log_handler import FnApiLogRecordHandler
from apache_beam.runners.worker.sdk_worker import GrpcStateHandler, SdkHarness, beam_fn_api_pb2
from apache_beam.utils.thread_pool_executor import shared_unbounded_instance

from bridge.workarounds import beam_workers
from bridge.workarounds.beam_workers import (
    close_with_worker,
    end_workers,
    fix_workers,
    is_worker_process,
    limit_starts,
)
from operators import useLocalEnv
from tests.support.beam_worker import Worker
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = pytest.mark.flink


def test_this_program_is_no_worker_process() -> None:
    assert not is_worker_process()


@pytest.mark.process
def test_late_logs_of_a_worker_do_not_reach_the_console() -> None:
    program = (
        "import logging, apache_beam\n"
        # newer releases of Beam log a warning when imported
        "logging.getLogger().handlers.clear()\n"
        "from bridge.workarounds.beam_workers import fix_workers\n"
        "fix_workers(); fix_workers()\n"
        "logger = logging.getLogger('apache_beam.runners.worker.sdk_worker')\n"
        "logger.error('Error processing instruction')\n"
        "print(len(logger.handlers))\n"
    )
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True
    )
    assert run.stdout == "1\n" and "Error processing" not in run.stderr


@pytest.mark.fault(
    "jobs", "A local Python worker that loses its connection leaves no thread or process"
)
def test_worker_that_loses_its_connection_closes_its_resources() -> None:
    close = Mock()
    worker = Worker(lambda: close_with_worker(close), ConnectionError("broken"))
    with pytest.raises(ConnectionError):
        worker.run()
    close.assert_called_once()
    worker._data_channel_factory.close.assert_called_once()
    worker._state_handler_factory.close.assert_called_once()
    worker._bundle_processor_cache.periodic_shutdown.cancel.assert_called_once()


@pytest.mark.fault(
    "jobs", "A Python worker whose TaskManager is killed ends, and its scripts with it"
)
def test_a_worker_process_ends_its_log_whose_reader_logs_that_the_connection_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # as it was, afterwards
    monkeypatch.setattr(FnApiLogRecordHandler, "close", FnApiLogRecordHandler.close)
    Worker(lambda: close_with_worker(Mock()), None).run()
    log = FnApiLogRecordHandler.__new__(FnApiLogRecordHandler)
    logging.Handler.__init__(log)
    log._log_entry_queue = queue.Queue()

    def read() -> None:
        log._log_entry_queue.get()
        with log.lock:  # as in a call of logging
            pass

    log._reader = threading.Thread(target=read, daemon=True)
    log._reader.start()
    closing = threading.Thread(target=log.close, daemon=True)
    closing.start()
    closing.join(DEADLINE_S)
    assert not closing.is_alive()


def test_a_log_whose_reader_has_ended_is_closed_although_its_queue_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # as it was, afterwards
    monkeypatch.setattr(FnApiLogRecordHandler, "close", FnApiLogRecordHandler.close)
    monkeypatch.setattr(beam_workers, "_LOG_END_S", 0.0)
    Worker(lambda: close_with_worker(Mock()), None).run()
    log = FnApiLogRecordHandler.__new__(FnApiLogRecordHandler)
    logging.Handler.__init__(log)
    log._log_entry_queue = queue.Queue(maxsize=1)
    log._log_entry_queue.put("nobody reads this")
    log.close()


@pytest.mark.fault("jobs")
def test_a_bundle_that_writes_its_state_ends_with_its_worker() -> None:
    fix_workers()
    over = threading.Event()

    def no_responses(
        requests: Iterator[beam_fn_api_pb2.StateRequest],
    ) -> Iterator[beam_fn_api_pb2.StateResponse]:
        over.wait()
        yield from ()

    handler = GrpcStateHandler(Mock(State=no_responses))
    with handler.process_instruction_id("bundle"):
        requests = [handler.clear(beam_fn_api_pb2.StateKey())]
        handler.done()
        requests.append(handler.clear(beam_fn_api_pb2.StateKey()))
    over.set()
    assert [each.get(timeout=0).error for each in requests] == ["the worker has ended"] * 2


class Blocked:
    """A function whose state does not arrive before the test says so."""

    may_go_on = threading.Event()

    def __call__(self, number: int) -> int:
        return number + 1

    def __getstate__(self) -> dict[str, int]:
        return {"number": 1}

    def __setstate__(self, state: dict[str, int]) -> None:
        self.may_go_on.wait()


@pytest.mark.fault(
    "jobs",
    "A local Python worker that blocks while it unpickles a function is named after startTimeout, with the place",
)
def test_worker_that_blocks_while_unpickling_is_named_with_its_place(
    capfd: pytest.CaptureFixture[str],
) -> None:
    env = useLocalEnv(1).senv
    printed: list[str] = []

    def seen() -> bool:
        printed.append(capfd.readouterr().err)
        return "in __setstate__" in "".join(printed)

    with ThreadPoolExecutor(1) as pool:
        limit_starts(0.5)
        try:
            done = pool.submit(
                lambda: list(env.from_collection([1, 2]).map(Blocked()).execute_and_collect())
            )
            wait_until(seen, "the worker is named")
        finally:
            limit_starts(300.0)
            Blocked.may_go_on.set()
        assert sorted(done.result()) == [2, 3]
    assert (
        "still imports or unpickles the functions of its job after 0.5 s (startTimeout)"
        in "".join(printed)
    )
    assert f'"{__file__}", line' in "".join(printed)


class Flink(beam_fn_api_pb2_grpc.BeamFnControlServicer):  # type: ignore[misc]
    """Flink's end of a worker's line, which breaks it at once."""

    def Control(self, responses: object, context: grpc.ServicerContext) -> None:
        context.abort(grpc.StatusCode.CANCELLED, "the job has failed")


def test_the_worker_of_the_installed_beam_leaves_no_thread() -> None:
    fix_workers()
    before = set(threading.enumerate())
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(Flink(), server)
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        worker = SdkHarness(address)
        with pytest.raises(grpc.RpcError, match="the job has failed"):
            worker.run()
        worker._control_channel.close()
        server.stop(None).wait()
    for thread in set(threading.enumerate()) - before:
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), thread


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


@contextmanager
def running(lose_line: Mock, lost: threading.Event, close: Mock) -> Iterator[None]:
    """Run a worker with one function in a thread until its line is lost."""
    at_work = threading.Event()

    def work() -> None:
        close_with_worker(close)
        at_work.set()
        lost.wait()

    def run() -> None:
        with suppress(ConnectionError):
            worker.run()

    worker = Worker(work, ConnectionError("lost"))
    worker._control_channel = Mock(close=lose_line)
    thread = threading.Thread(target=run)
    thread.start()
    at_work.wait()
    try:
        yield
    finally:
        lost.set()
        thread.join()


def test_workers_have_ended_with_their_functions_when_the_program_ends() -> None:
    lost, close = threading.Event(), Mock()
    with running(Mock(side_effect=lost.set), lost, close):
        end_workers()
        close.assert_called_once()


def test_worker_that_does_not_end_does_not_delay_the_exit() -> None:
    lose_line, close = Mock(), Mock()
    with running(lose_line, threading.Event(), close):
        end_workers(timeout_s=0.05)
        lose_line.assert_called_once()
        close.assert_not_called()


def test_the_end_waits_for_a_bundle_that_has_not_begun() -> None:
    begins, ended = threading.Event(), threading.Event()
    ending = threading.Thread(target=lambda: (end_workers(60.0), ended.set()))
    # `begins.wait` is no call of the worker yet, as before a thread of the pool gets the
    # interpreter.
    waits = shared_unbounded_instance().submit(begins.wait)
    ending.start()
    assert not ended.wait(0.1)
    begins.set()
    ending.join()
    waits.result()
