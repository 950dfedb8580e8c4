"""Workarounds for defects of Beam's workers, in which Flink runs Python functions.

On a cluster a worker is a process. In a local job it is a thread of the driver, so what it leaves
behind stays until the driver ends. Each comment at a function names the defect upstream. Beam and
PyFlink are imported when a function needs them.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import chain
from queue import Full
from traceback import extract_stack, walk_stack
from types import FrameType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import grpc

from akdl.process.activity import current_frames
from bridge.host.console import warn

if TYPE_CHECKING:
    from apache_beam.runners.worker.sdk_worker import SdkHarness

_closing: dict[SdkHarness, list[Callable[[], None]]] = {}
"""The workers that run, and what is called when they have ended."""
_lock = threading.Lock()
_start_s = 300.0

_LOOK_S = 0.01
_PLACE_FRAMES = 3
_LOG_END_S = 5.0
_NO_PROXY = ("grpc.enable_http_proxy", 0)


@functools.cache
def fix_workers() -> None:
    """Let workers inside this program reach Flink, leave nothing behind, and not repeat its errors.

    Safe to call twice: the result is cached, so nothing is replaced again.
    """
    _bypass_proxies()
    _end_flushers()
    _close_what_workers_leave()
    _answer_requests_of_state()
    _warn_of_late_starts()
    _keep_copies_of_errors_off_the_console()


def limit_starts(seconds: float) -> None:
    """Set the time within which workers inside this program have to import and unpickle the
    functions of a job.
    """
    global _start_s
    _start_s = seconds


def worker_of_this_thread() -> weakref.ref[SdkHarness] | None:
    """Find the Beam worker that calls a function, or None, as in a test.

    The reference is weak, so that it does not keep a worker that has ended.
    """
    # A worker that loses its connection to Flink closes no function, and functions cannot find out
    # whether it has ended (`SdkHarness` of apache_beam/runners/worker/sdk_worker.py). It is found
    # only among the callers of a function.
    # The module is not imported here: that takes half a second, and a program without a worker has
    # not loaded it.
    beam = sys.modules.get("apache_beam.runners.worker.sdk_worker")
    frame: FrameType | None = sys._getframe()
    while frame is not None and beam is not None:
        worker = frame.f_locals.get("self")
        if isinstance(worker, beam.SdkHarness):
            return weakref.ref(worker)
        frame = frame.f_back
    return None


def has_ended(worker: weakref.ref[SdkHarness] | None) -> bool:
    """Return True for a worker that no longer answers Flink; False where there is no worker."""
    if worker is None:
        return False
    harness = worker()
    return harness is None or not harness._alive


def close_with_worker(close: Callable[[], None]) -> None:
    """Call `close` at the end of this function's worker, or at once if it has ended. It has to be
    safe to call twice.
    """
    worker = worker_of_this_thread()
    harness = None if worker is None else worker()
    if harness is None:
        return
    _end_logs_without_their_lock()
    # Under the lock, the worker's thread cannot take its list away between the two lines. Without
    # it, a function that was still being opened would never be closed.
    with _lock:
        has_worker = not has_ended(worker)
        if has_worker:
            _closing.setdefault(harness, []).append(close)
    if not has_worker:
        close()


def end_workers(timeout_s: float = 30.0) -> None:
    """End the workers inside this program before the program ends, and wait for their threads.

    Called at exit. After `timeout_s` seconds the program ends nevertheless.
    """
    # Workers' threads are daemons, which CPython before 3.14 ends when they next acquire the GIL.
    # In a C++ destructor, such as that of an Arrow buffer, that aborts the program
    # (python/cpython#87135): "terminate called without an active exception".
    with _lock:
        running = list(_closing)
    for harness in running:
        # This looks to the worker as if the connection to Flink were lost.
        harness._control_channel.close()
    deadline = time.monotonic() + timeout_s
    while _is_at_work() and time.monotonic() < deadline:
        time.sleep(_LOOK_S)


def _is_at_work() -> bool:
    """Return True if a thread still runs a worker, by the frames of all threads."""
    beam = sys.modules.get("apache_beam.runners.worker.sdk_worker")
    if beam is None:
        return False
    # A thread of Beam's pool may have a bundle that it has not begun when the worker has ended.
    if any(getattr(thread, "_work_item", None) is not None for thread in threading.enumerate()):
        return True
    frames = chain.from_iterable(walk_stack(frame) for frame in current_frames().values())
    return any(frame.f_code is beam.SdkHarness.run.__code__ for frame, _ in frames)


def is_worker_process() -> bool:
    # PyFlink has no function for this. In a program with a local job, workers have no process of
    # their own.
    started_by = getattr(sys.modules["__main__"], "__spec__", None)
    return started_by is not None and started_by.name == "pyflink.fn_execution.beam.beam_boot"


def _bypass_proxies() -> None:
    # `GRPCChannelFactory` of apache_beam/runners/worker/channel_factory.py, and PyFlink's
    # pyflink/fn_execution/beam/beam_worker_pool_service.py, leave gRPC's `http_proxy` on for
    # channels to "localhost". Without it in `no_proxy`, local jobs did not start.
    from apache_beam.runners.worker.channel_factory import GRPCChannelFactory
    from pyflink.fn_execution.beam import beam_worker_pool_service

    GRPCChannelFactory.DEFAULT_OPTIONS.append(_NO_PROXY)
    # PyFlink's pool of workers passes no options to its channels, so it gets another module grpc.
    connect = functools.partial(grpc.insecure_channel, options=[_NO_PROXY])
    beam_worker_pool_service.grpc = SimpleNamespace(**{**vars(grpc), "insecure_channel": connect})


def _end_flushers() -> None:
    # `BeamTimeBasedOutputStream` of pyflink/fn_execution/beam/beam_stream_slow.py starts a
    # `PeriodicThread` that its `close` ends. A worker inside the driver ends without closing its
    # functions (see `worker_of_this_thread`), so each local job left about 20 threads that wake up
    # every second.
    from pyflink.fn_execution.utils.operation_utils import PeriodicThread

    PeriodicThread._akdl_start = PeriodicThread.start

    def start(thread: Any) -> None:
        worker = worker_of_this_thread()
        function = thread._function

        def flush() -> None:
            if has_ended(worker):
                thread.cancel()
            else:
                function()

        thread._function = flush
        thread._akdl_start()

    PeriodicThread.start = start


def _close_what_workers_leave() -> None:
    # `SdkHarness.run` of apache_beam/runners/worker/sdk_worker.py closes nothing when its control
    # channel breaks, as in jobs that fail or are cancelled, and never closes a function that is
    # still being opened. So such a job left threads, connections, ports and processes.
    from apache_beam.runners.worker.sdk_worker import SdkHarness
    from apache_beam.utils.sentinel import Sentinel

    SdkHarness._akdl_run = SdkHarness.run  # type: ignore[attr-defined]

    def run(harness: Any) -> None:
        with _lock:
            _closing[harness] = []
        try:
            harness._akdl_run()
        # The channel to Flink has broken, so `run` of Beam has not come to its own closing lines.
        except BaseException:
            harness._responses.put(Sentinel.sentinel)
            harness._data_channel_factory.close()
            harness._state_handler_factory.close()
            harness._bundle_processor_cache.periodic_shutdown.cancel()
            raise
        finally:
            with _lock:
                closing = _closing.pop(harness)
            # The stack calls all of them, in the reverse order of their opening, also if one fails.
            with ExitStack() as stack:
                for close in closing:
                    stack.callback(close)

    SdkHarness.run = run  # type: ignore[assignment, method-assign]


def _answer_requests_of_state() -> None:
    # `GrpcStateHandler` of apache_beam/runners/worker/sdk_worker.py leaves requests without an
    # answer when it is closed. A bundle that writes its state then waited indefinitely, and the end
    # of the program waited for the bundle.
    from apache_beam.runners.worker.sdk_worker import GrpcStateHandler, beam_fn_api_pb2  # type: ignore[attr-defined]

    done = GrpcStateHandler.done
    request = GrpcStateHandler._request

    def answer_all(handler: GrpcStateHandler) -> None:
        for future in list(handler._responses_by_id.values()):
            future.set(beam_fn_api_pb2.StateResponse(error="the worker has ended"))

    def close(handler: GrpcStateHandler) -> None:
        done(handler)
        answer_all(handler)

    def ask(handler: GrpcStateHandler, message: beam_fn_api_pb2.StateRequest) -> object:
        future = request(handler, message)
        # The handler may have been closed between the request and now, without this answer.
        if handler._done:
            answer_all(handler)
        return future

    GrpcStateHandler.done, GrpcStateHandler._request = close, ask  # type: ignore[assignment, method-assign]


def _end_logs_without_their_lock() -> None:
    # `FnApiLogRecordHandler.close` of apache_beam/runners/worker/log_handler.py waits for its
    # reader under the handler's lock. The reader prints that the connection is lost, and print logs
    # in a worker's process (`CustomPrint` of pyflink/fn_execution/beam/beam_sdk_worker_main.py),
    # which takes that lock. So a worker whose TaskManager was killed waited for itself, and all of
    # its threads that log waited too, also the one that stops its scripts.
    from apache_beam.runners.worker.log_handler import FnApiLogRecordHandler

    def close(handler: FnApiLogRecordHandler) -> None:
        handler._alive = False
        # The queue stays full if its reader has ended before.
        with suppress(Full):
            handler._log_entry_queue.put(handler._FINISHED, timeout=_LOG_END_S)
            handler._reader.join()
        logging.Handler.close(handler)

    FnApiLogRecordHandler.close = close  # type: ignore[assignment, method-assign]


def _warn_of_late_starts() -> None:
    # Neither Flink nor `BundleProcessor` of apache_beam/runners/worker/bundle_processor.py limits
    # the time in which a worker imports and unpickles functions. The job waits, and no function of
    # ours runs that could say so.
    from apache_beam.runners.worker.bundle_processor import BundleProcessor

    start: Callable[..., None] = BundleProcessor.__init__

    def limited(*values: object, **options: object) -> None:
        timer = threading.Timer(_start_s, _warn_of_late_start, (threading.get_ident(), _start_s))
        timer.daemon = True
        timer.start()
        try:
            start(*values, **options)
        finally:
            timer.cancel()

    BundleProcessor.__init__ = limited  # type: ignore[method-assign]


def _warn_of_late_start(thread: int, limit_s: float) -> None:
    frames = extract_stack(current_frames().get(thread))[: -_PLACE_FRAMES - 1 : -1]
    place = " < ".join(
        f'File "{each.filename}", line {each.lineno} in {each.name}' for each in frames
    )
    warn(
        "a Python worker of Flink still imports or unpickles the functions of its job after"
        f" {limit_s:g} s (startTimeout), and the job waits for it. It stands at {place}"
    )


def _keep_copies_of_errors_off_the_console() -> None:
    # `SdkHarness._execute` of apache_beam/runners/worker/sdk_worker.py prints a failed function's
    # traceback, besides logging it and sending it to Flink, which raises it: users saw each error
    # twice. Where the job has ended meanwhile, with its log handler, Python itself would print the
    # record.
    from apache_beam.runners.worker import sdk_worker

    def show(*values: Any, **options: Any) -> None:
        if os.environ.get("AKDL_TRACEBACK") == "full":
            print(*values, **options)

    # Python looks for a name in the module before it looks among the built-in ones.
    vars(sdk_worker)["print"] = show
    logging.getLogger(sdk_worker.__name__).addHandler(logging.NullHandler())
