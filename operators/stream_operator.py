"""Stream operators: tables whose rows are printed as they arrive."""

from __future__ import annotations

import math
import secrets
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from bridge.exceptions import ConfigurationError
from bridge.host.console import say
from bridge.interrupts import interrupts_later, waited_for
from bridge.schema import quoted
from bridge.table_env import planning
from operators.base.job import job_named, running
from operators.base.shaping import ShapingOperator
from operators.base.source_operator import MemorySource, TableSource
from operators.errors.exit_warnings import warn_at_exit
from operators.flink.env import getMLEnv
from operators.progress.waiting import tell_late_rows

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, TableResult

# Ctrl-C takes effect after at most this many seconds.
_CTRL_C_S = 0.2
# Signs of the kinds of changes, by Flink's numbers, as Flink prints them.
_SIGNS = {0: "", 1: "-U ", 2: "+U ", 3: "-D "}


class StreamOperator(ShapingOperator["StreamOperator"]):
    """A stream and the operators that can follow it. No job runs until
    `StreamOperator.execute()`.
    """

    _printed: ClassVar[list[_Printed]] = []

    @staticmethod
    def _own_environment() -> StreamTableEnvironment:
        return getMLEnv().stenv

    def print(
        self,
        n: int | str = 0,
        title: str | None = None,
        *,
        key: str | None = None,
        refreshInterval: int = 0,
        maxLimit: int = 100,
        port: int = 0,
    ) -> StreamOperator:
        """Print rows as they arrive, once `StreamOperator.execute()` is called.

        With Flink's checkpoints enabled, rows are printed after the next checkpoint.

        Args:
            n: Number of rows to print; 0 or less for all. The job continues after them. A string is
                used as the title.
            title: Prefix of each row, for programs that print several streams.
            key: Title if `title` is not given.
            refreshInterval: Ignored: each row is printed when it arrives.
            maxLimit: Ignored.
            port: Ignored.
        """
        if isinstance(n, str):
            key = n
            n = 0
        if type(n) is not int:
            raise ConfigurationError(f"print: expected a number of rows, got {n!r}")
        StreamOperator._printed.append(
            _Printed(self, max(n, 0), title if title is not None else key)
        )
        return self

    def _print_nothing(self, clean_up: Callable[[], object]) -> None:
        """Let the next job compute this table; `clean_up` is called when it has ended."""
        StreamOperator._printed.append(_Printed(self, 0, None, clean_up))

    @staticmethod
    def execute(jobName: str | None = None) -> None:
        """Run one job that prints all streams on which `print` was called and writes files of
        sinks; Ctrl-C cancels it.

        Args:
            jobName: Name of the job in Flink's web UI.

        Raises:
            ConfigurationError: `print` was not called and no sink linked, or on streams of
                different environments.
            BridgeError: The job failed.
        """
        with interrupts_later():
            job = StreamOperator.executeAsync(jobName)
            try:
                waited_for(job.wait)
            finally:
                job.cancel()

    @staticmethod
    def executeAsync(jobName: str | None = None) -> StreamJob:
        """Start the job of `execute` and return at once."""
        printed = StreamOperator._printed
        StreamOperator._printed = []
        if not printed:
            raise ConfigurationError(
                "StreamOperator.execute() has nothing to run: first call print() on a stream, or"
                ' link it to a sink. To write a stream into a Flink table, call insertInto("table")'
                " on it"
            )
        return StreamJob(printed, jobName)


StreamOperator._family = StreamOperator
_NOT_RUN = (
    "print() or a sink was used on a stream but StreamOperator.execute() was never called, so"
    " nothing ran"
)
warn_at_exit(lambda: _NOT_RUN if StreamOperator._printed else "")


class TableSourceStreamOp(TableSource, StreamOperator):
    """A plain PyFlink table, bounded or not; jobs run in that table's environment.

    Example:
        clicks = TableSourceStreamOp(getMLEnv().stenv.from_path("clicks"))
    """


class MemSourceStreamOp(MemorySource, StreamOperator):
    """Rows from memory as a bounded stream, see `MemSourceBatchOp`."""


StreamOperator._table_source = TableSourceStreamOp
StreamOperator._memory_source = MemSourceStreamOp


class _Printed(NamedTuple):
    op: StreamOperator
    rows: int
    title: str | None
    # This is set for tables whose rows are not shown but written by a sink.
    clean_up: Callable[[], object] | None = None


class StreamJob:
    """A running job that prints rows as they arrive.

    Made in the caller's thread, which starts the job. A daemon thread prints its rows and ends its
    processes. `wait` and `cancel` may be called from any thread.
    """

    def __init__(self, printed: Sequence[_Printed], name: str | None = None) -> None:
        self._printed = printed
        self._names = [each.op.getColNames() for each in printed]
        # 0 rows stand for all.
        self._left = [each.rows or sys.maxsize for each in printed]
        self._cancelled = False
        self._error: BaseException | None = None
        self._combined = _combined([each.op for each in printed])
        self._result: TableResult | None = None
        # An event is waited for instead of the thread itself: CPython 3.10 to 3.12 regard a thread
        # as ended when its join was interrupted.
        self._ended = threading.Event()
        # The job starts in the caller's thread, so that its errors are raised there; the other
        # thread only waits for rows.
        try:
            with interrupts_later(), ExitStack() as stack:
                stack.enter_context(running(self._combined))
                table = self._combined.getOutputTable()
                job_name = name or self._combined._job_name()
                with (
                    planning(),
                    job_named(self._combined._table_env, job_name, first=name is not None),
                ):
                    self._result = table.execute()
                # From here on the thread ends the job's processes. If the start failed, the stack
                # does so here.
                self._clean_up = stack.pop_all()
                threading.Thread(target=self._run, name="akdl-print", daemon=True).start()
        except KeyboardInterrupt:
            if self._result is not None:
                self.cancel()
            raise

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the job, at most `timeout_s` seconds; True if it has ended. A failure
        is a BridgeError.
        """
        ends = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while not self._ended.is_set() and time.monotonic() < ends:
            # The wait has short slices, so that Ctrl-C interrupts it.
            self._ended.wait(_CTRL_C_S)
        if self._error is not None and not self._cancelled:
            raise self._error
        return self._ended.is_set()

    def cancel(self) -> None:
        """Cancel the job, unless it has ended, and wait for its end. Safe to call twice."""
        client = self._result and self._result.get_job_client()
        if not self._ended.is_set() and client is not None:
            self._cancelled = True
            # The job may have ended just now.
            with suppress(Exception):
                client.cancel().result()
        while not self._ended.wait(_CTRL_C_S):
            pass

    def _run(self) -> None:
        """Print rows until the job has ended, and keep its error for `wait`.

        Runs in a thread of its own.
        """
        try:
            with self._clean_up:
                self._show()
        except BaseException as error:
            self._error = error
        finally:
            for each in self._printed:
                # The storage of a sink may be unreachable, and the other tables have to be cleaned
                # up all the same.
                with suppress(Exception):
                    if each.clean_up is not None:
                        each.clean_up()
            self._ended.set()

    def _show(self) -> None:
        """Print the rows of all tables of the job, each with the signs of its changes."""
        assert self._result is not None, "the job has been started"
        for each, names in zip(self._printed, self._names):
            if each.clean_up is None:
                _say(each, ", ".join(names))
        with self._result.collect() as rows:
            for row in rows:
                number = row[0]
                cells = row[1]
                if self._left[number] and self._printed[number].clean_up is None:
                    self._left[number] -= 1
                    _say(self._printed[number], _SIGNS[row.get_row_kind().value] + ", ".join(cells))
        tell_late_rows(self._result)


@planning()
def _combined(ops: Sequence[StreamOperator]) -> StreamOperator:
    """One table of the rows of several, as Flink runs one job for one result.

    Cells become texts, because the tables have different columns.
    """
    table_env = ops[0]._table_env
    queries: dict[str, str] = {}
    try:
        for number, op in enumerate(ops):
            table = op.getOutputTable()
            if op._table_env is not table_env:
                raise ConfigurationError(
                    "StreamOperator.execute(): all printed streams must belong to one environment"
                )
            view = f"akdl_printed_{secrets.token_hex(4)}"
            table_env.create_temporary_view(view, table)
            # PyFlink cannot read arrays that contain nulls.
            cells = ", ".join(
                f"COALESCE(CAST({quoted(name)} AS STRING), 'null')" for name in op.getColNames()
            )
            queries[view] = f"SELECT {number} AS op, ARRAY[{cells}] AS cells FROM {view}"
        combined = StreamOperator()
        combined._table = table_env.sql_query(" UNION ALL ".join(queries.values()))
    finally:
        for view in queries:
            # Flink has resolved the views in the query, so the job doesn't need them.
            table_env.drop_temporary_view(view)
    combined._include(*ops)
    return combined


def _say(printed: _Printed, text: str) -> None:
    say(text if printed.title is None else f"{printed.title}: {text}")
