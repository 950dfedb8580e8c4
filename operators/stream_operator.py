"""Stream operators: tables without an end, or with one, that are watched while they grow."""

from __future__ import annotations

import math
import secrets
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pandas as pd

from bridge.exceptions import ConfigurationError
from bridge.host.console import say
from bridge.interrupts import interrupts_later, waited_for
from bridge.schema import quoted
from bridge.table_env import planning
from operators.base.job import environment_of, job_named, running
from operators.base.shaping import ShapingOperator
from operators.base.source_operator import MemorySource, TableSource
from operators.errors.exit_warnings import look_at_exit
from operators.flink.env import getMLEnv
from operators.progress.waiting import tell_late_rows

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table, TableResult

_LOOK_S = 0.2  # how soon Ctrl-C is heard
_SIGNS = {0: "", 1: "-U ", 2: "+U ", 3: "-D "}  # of updates, as Flink shows them; plain rows need none


class StreamOperator(ShapingOperator["StreamOperator"]):
    """A stream and the operators that can follow it. Nothing runs before `StreamOperator.execute()`."""

    _printed: ClassVar[list[_Printed]] = []

    @staticmethod
    def _own_environment() -> StreamTableEnvironment:
        return getMLEnv().stenv

    @staticmethod
    def fromTable(table: Table) -> TableSourceStreamOp:
        """Start from a plain PyFlink table, with or without end; what follows runs in that table's environment."""
        return TableSourceStreamOp(table)

    @staticmethod
    def fromDataframe(df: pd.DataFrame, schemaStr: str | None = None) -> StreamOperator:
        """Start from a pandas DataFrame.

        Args:
            df: Its columns are taken by name. NaN and other missing values are null.
            schemaStr: "name type, name type"; the types that hold the cells when it is not given.
        """
        return MemSourceStreamOp(df, schemaStr)

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
        """Show rows as they come, once `StreamOperator.execute()` is called.

        With Flink's checkpoints on, rows are shown when the checkpoint after them is done.

        Args:
            n: How many rows to show; 0 and less for all. The job goes on after them. A string is taken for a title.
            title: What to write in front of each row; useful where several streams are printed.
            key: The same, if there is no title.
            refreshInterval: Taken and not used: each row is shown when it comes.
            maxLimit: Taken and not used.
            port: Taken and not used: rows come the way that Flink's own results come.
        """
        if isinstance(n, str):
            key, n = n, 0
        if isinstance(n, bool) or not isinstance(n, int):
            raise ConfigurationError(f"print: expected a number of rows, got {n!r}")
        StreamOperator._printed.append(_Printed(self, max(n, 0), title if title is not None else key))
        return self

    @staticmethod
    def execute(jobName: str | None = None) -> None:
        """Run one job with all streams that `print` was called for, until it ends; Ctrl-C cancels it.

        Args:
            jobName: Name of the job, for Flink's web page.

        Raises:
            ConfigurationError: `print` was not called, or for streams of different environments.
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
        """Start what `execute` runs and return at once."""
        printed, StreamOperator._printed = StreamOperator._printed, []
        if not printed:
            raise ConfigurationError(
                "StreamOperator.execute() has nothing to run: call print() on a stream first. To write a stream into a "
                'table of Flink, call insertInto("table") on it'
            )
        return StreamJob(printed, jobName)


StreamOperator._family = StreamOperator
look_at_exit(
    lambda: (
        "print() was called on a stream, and StreamOperator.execute() was not: nothing ran" if StreamOperator._printed else ""
    )
)


class TableSourceStreamOp(TableSource, StreamOperator):
    """A plain PyFlink table, with or without end; what follows runs in that table's environment.

    Example:
        clicks = TableSourceStreamOp(getMLEnv().stenv.from_path("clicks"))
    """


class MemSourceStreamOp(MemorySource, StreamOperator):
    """Rows from memory as a stream with an end, see `MemSourceBatchOp`."""


@dataclass(frozen=True)
class _Printed:
    op: StreamOperator
    rows: int
    title: str | None


class StreamJob:
    """A running job whose rows are printed as they come.

    Args:
        printed: The streams to print, at least one, all of one environment.
        name: Name of the job; Flink's own if it is None.
    """

    def __init__(self, printed: Sequence[_Printed], name: str | None = None) -> None:
        self._printed = printed
        self._names = [each.op.getColNames() for each in printed]
        self._left = [each.rows or sys.maxsize for each in printed]
        self._cancelled = False
        self._error: BaseException | None = None
        self._whole = _whole([each.op for each in printed])
        self._result: TableResult | None = None
        # In place of the thread's own end: CPython 3.10 to 3.12 take a thread whose join was interrupted for ended.
        self._ended = threading.Event()
        # In the caller's thread, so that it hears what is wrong with the job; only rows are waited for in the other.
        try:
            with interrupts_later(), ExitStack() as stack:
                stack.enter_context(running(self._whole))
                with planning():
                    self._result = _started(self._whole, name)
                self._clean_up = stack.pop_all()
                threading.Thread(target=self._run, name="akdl-print", daemon=True).start()
        except KeyboardInterrupt:
            if self._result is not None:
                self.cancel()
            raise

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the job has ended, and return whether it has.

        Args:
            timeout_s: Seconds to wait at most; None for no limit.

        Raises:
            BridgeError: The job failed.
        """
        ends = math.inf if timeout_s is None else time.monotonic() + timeout_s
        while not self._ended.is_set() and time.monotonic() < ends:
            self._ended.wait(_LOOK_S)  # in slices, so that Ctrl-C is heard
        if self._error is not None and not self._cancelled:
            raise self._error
        return self._ended.is_set()

    def cancel(self) -> None:
        """Cancel the job, unless it has ended, and wait until it is gone. Safe to call twice."""
        client = None if self._result is None else self._result.get_job_client()
        if not self._ended.is_set() and client is not None:
            self._cancelled = True
            with suppress(Exception):  # it may have ended just now
                client.cancel().result()
        while not self._ended.wait(_LOOK_S):
            pass

    def _run(self) -> None:
        try:
            with self._clean_up:
                self._show()
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()

    def _show(self) -> None:
        assert self._result is not None, "the job has been started"
        for each, names in zip(self._printed, self._names):
            _say(each, ", ".join(names))
        with self._result.collect() as rows:
            for row in rows:
                number, cells = row[0], row[1]
                if self._left[number]:
                    self._left[number] -= 1
                    _say(self._printed[number], _SIGNS[row.get_row_kind().value] + ", ".join(cells))
        tell_late_rows(self._result)


def _started(whole: StreamOperator, name: str | None) -> TableResult:
    """Start the job of a stream, under a name."""
    table = whole.getOutputTable()
    with job_named(environment_of(table), name or whole._job_name(), first=name is not None):
        return table.execute()


@planning()
def _whole(ops: Sequence[StreamOperator]) -> StreamOperator:
    """Return a stream of (number of the operator, cells as texts) of the rows of all these, to run them in one job."""
    table_env = environment_of(ops[0].getOutputTable())
    queries = []
    for number, op in enumerate(ops):
        table = op.getOutputTable()
        if environment_of(table) is not table_env:
            raise ConfigurationError("StreamOperator.execute(): all printed streams must belong to one environment")
        view = f"akdl_printed_{secrets.token_hex(4)}"
        table_env.create_temporary_view(view, table)
        # PyFlink cannot read arrays with nulls in them.
        cells = ", ".join(f"COALESCE(CAST({quoted(name)} AS STRING), 'null')" for name in op.getColNames())
        queries.append(f"SELECT {number} AS op, ARRAY[{cells}] AS cells FROM {view}")
    whole = StreamOperator()
    whole._table = table_env.sql_query(" UNION ALL ".join(queries))
    whole._also_starts_what(*ops)
    return whole


def _say(printed: _Printed, text: str) -> None:
    say(text if printed.title is None else f"{printed.title}: {text}")
