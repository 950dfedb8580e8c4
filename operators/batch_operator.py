"""Batch operators: tables with an end, run when their rows are asked for, and where they start in a program."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pandas as pd
import pyarrow as pa

from bridge.exceptions import ConfigurationError
from bridge.host.console import say
from bridge.interrupts import interrupts_later
from bridge.table_env import planning
from operators.base.job import environment_of, running
from operators.base.shaping import ShapingOperator, refuse_replacement
from operators.base.source_operator import MemorySource, TableSource
from operators.errors.exit_warnings import look_at_exit
from operators.flink.env import getMLEnv
from operators.flink.joint_job import Receiver, run_jointly
from operators.tables.table_statistics import aggregates, statistics_of

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table

_SHOWN_ROWS = 21  # as many rows as Alink prints without leaving some out
_SHOWN_CHARACTERS = 60  # of one cell; a row of a model table has a million
_DIRECTION = re.compile(r"\b(ASC|DESC|NULLS\s+(FIRST|LAST))\s*$", re.IGNORECASE)  # at the end of a list to sort by
_Result = TypeVar("_Result")
_Op = TypeVar("_Op", bound="BatchOperator")


class BatchOperator(ShapingOperator["BatchOperator"]):
    """A bounded table and the operators that can follow it. Nothing runs before a result is asked for."""

    _deferred: ClassVar[list[Deferred]] = []
    _has_run: ClassVar[bool] = False  # whether a job has run, or a model was saved, since the last `execute`

    def __init__(self) -> None:
        super().__init__()
        self._model_dir: str | None = None  # where the model lies that this table names
        self._packed: str | None = None  # the model that this table holds, once it was asked for, as a file

    @staticmethod
    def _own_environment() -> StreamTableEnvironment:
        return getMLEnv().btenv

    @staticmethod
    def fromTable(table: Table) -> TableSourceBatchOp:
        """Start from a plain PyFlink table; what follows runs in that table's environment."""
        return TableSourceBatchOp(table)

    @staticmethod
    def fromDataframe(df: pd.DataFrame, schemaStr: str | None = None) -> BatchOperator:
        """Start from a pandas DataFrame.

        Args:
            df: Its columns are taken by name. NaN and other missing values are null.
            schemaStr: "name type, name type"; the types that hold the cells when it is not given.
        """
        return MemSourceBatchOp(df, schemaStr)

    def firstN(self, n: int) -> BatchOperator:
        """Return n rows, the first ones of a sorted table."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ConfigurationError(f"firstN: expected a number of rows of at least 1, got {n!r}")
        # In SQL, a LIMIT around a sorted table would make Flink forget the order.
        with planning():
            return self._followed_by(self.getOutputTable().limit(n))

    def orderBy(
        self, field: str, limit: int = -1, fetch: int = -1, offset: int = -1, order: str | None = None
    ) -> BatchOperator:
        """Return the rows in order.

        Args:
            field: What to sort by, such as "score", "score DESC" or "a, b DESC".
            limit: How many rows to return; all if it is not positive.
            fetch: The same, for use with `offset`.
            offset: How many rows to leave out before them.
            order: "asc" or "desc", of the last field; ascending when neither says it.
        """
        if order is not None and str(order).lower() not in ("asc", "desc"):
            raise ConfigurationError(f"orderBy: expected order 'asc' or 'desc', got {order!r}")
        if order is not None and _DIRECTION.search(field):
            raise ConfigurationError(f"orderBy: field {field!r} says the order already: leave out order={order!r}")
        most = limit if limit > 0 else fetch
        # In a line of its own, as a comment may end the field.
        end = f"\n{order or ''}" + (f" LIMIT {most}" if most > 0 else "") + (f" OFFSET {offset}" if offset > 0 else "")
        return self._query("orderBy", field, lambda view: f"SELECT * FROM {view} ORDER BY {field}{end}")

    def groupBy(self, by: str, select: str) -> BatchOperator:
        """Return one row for each group.

        Args:
            by: Columns that the rows of a group have in common, such as "a, b".
            select: SQL select list, such as "a, SUM(x) AS total".
        """
        sql = f"{select} ... GROUP BY {by}"
        return self._query("groupBy", sql, lambda view: f"SELECT {select}\nFROM {view} GROUP BY {by}")

    def distinct(self) -> BatchOperator:
        """Return each row once."""
        return self._query("distinct", "DISTINCT", lambda view: f"SELECT DISTINCT * FROM {view}")

    def union(self, *others: BatchOperator) -> BatchOperator:
        """Return the rows of this table and of others with the same columns, each row once."""
        return self._query("union", "UNION", lambda *views: " UNION ".join(f"SELECT * FROM {v}" for v in views), *others)

    def sampleWithSize(self, numSamples: int, withReplacement: bool = False) -> BatchOperator:
        """Return a number of random rows, other ones in each job."""
        refuse_replacement("sampleWithSize", withReplacement)
        return self.orderBy("RAND()", limit=numSamples)

    def shuffle(self) -> BatchOperator:
        """Return the rows in a random order."""
        return self.orderBy("RAND()")

    def rebalance(self) -> BatchOperator:
        """Return the same rows: scripts get even shares anyway."""
        return self._followed_by(self.getOutputTable())

    def print(self, n: int = 0, title: str | None = None) -> BatchOperator:
        """Run the job and print its rows. What was put off before runs in the same job.

        Args:
            n: Number of rows; 0 and less stand for all, or the first and last ten where there are more than 21.
            title: A line to print before them.
        """
        _show(self._limited(n).collectToDataframe(), n, title)
        return self

    def lazyPrint(self, n: int = 0, title: str | None = None) -> BatchOperator:
        """Print as `print` does, when the next job runs, such as by `BatchOperator.execute()`."""
        self._limited(n).lazyCollectToDataframe(lambda frame: _show(frame, n, title))
        return self

    def insertInto(self: _Op, table: str) -> _Op:
        """Run the job, write all rows into a table of Flink, and wait until they are written.

        What was put off before runs in the same job. Ctrl-C cancels it.

        Args:
            table: Name of the table, with its catalog and database where these are not the current ones.

        Raises:
            BridgeError: There is no such table, its columns are others, or the job failed.
        """
        if BatchOperator._deferred:
            self._defer(None, table)
            BatchOperator.execute()
        else:
            super().insertInto(table)
        BatchOperator._has_run = True
        return self

    def collectToDataframe(self) -> pd.DataFrame:
        """Run the job and return its rows. What was put off before runs in the same job.

        Columns without nulls have the dtype of their type. Where there are nulls, floats have NaN, times have NaT, and all
        others stay exact in a column of objects with None. An ARRAY column has arrays of numpy, and lists where some array
        has a null. Instants have the session's time zone; a column with one before 1678 is in UTC, since pandas cannot show it
        elsewhere.
        """
        from operators.flink.collect import frame_of, still_there
        from operators.flink.joint_job import collect

        if BatchOperator._deferred:
            frames: list[pd.DataFrame] = []
            self.lazyCollectToDataframe(frames.append)
            BatchOperator.execute()
            BatchOperator._has_run = True
            return frames[0]
        table = self.getOutputTable()
        return frame_of(table, still_there(*self._run(lambda: collect(table, self._job_name()))))

    def lazyCollectToDataframe(self, *callbacks: Callable[[pd.DataFrame], Any]) -> BatchOperator:
        """Call functions with the rows, see `collectToDataframe`, when the next job runs."""
        self._defer(_FrameReceiver(self.getOutputTable(), callbacks))
        return self

    def collectStatistics(self) -> pd.DataFrame:
        """Run the job and return a row for each column: count, missing, sum, mean, variance, standardDeviation, min and max."""
        return statistics_of(self.getColNames(), self.getColTypes(), self._aggregated().collectToDataframe())

    def lazyCollectStatistics(self, *callbacks: Callable[[pd.DataFrame], Any]) -> BatchOperator:
        """Call functions with the statistics, see `collectStatistics`, when the next job runs."""
        names, types = self.getColNames(), self.getColTypes()

        def call(frame: pd.DataFrame) -> None:
            for callback in callbacks:
                callback(statistics_of(names, types, frame))

        self._aggregated().lazyCollectToDataframe(call)
        return self

    def lazyPrintStatistics(self, title: str | None = None) -> BatchOperator:
        """Print the statistics, see `collectStatistics`, when the next job runs."""
        return self.lazyCollectStatistics(lambda frame: _show(frame, len(frame), title))

    @staticmethod
    def execute(jobName: str | None = None) -> None:
        """Run what was put off, by `lazyPrint` and its kin and by sinks, as one job for each environment.

        Args:
            jobName: Name of the job, for Flink's web page.

        Raises:
            ConfigurationError: Nothing was put off, and no job has run since the last call.
        """
        deferred, BatchOperator._deferred = BatchOperator._deferred, []
        has_run, BatchOperator._has_run = BatchOperator._has_run, False
        if not deferred and not has_run:
            raise ConfigurationError(
                "BatchOperator.execute() has nothing to run: call lazyPrint() on an operator, or link it to a sink, first"
            )
        environments = [environment_of(each.op.getOutputTable()) for each in deferred]
        order = sorted(range(len(deferred)), key=lambda place: environments.index(environments[place]))
        for _, places in groupby(order, key=lambda place: environments.index(environments[place])):
            _run_deferred([deferred[place] for place in places], jobName)

    def _defer(self, receiver: Receiver | None, into: str = "") -> None:
        """Put off a result: rows for a receiver, or `into` a table of Flink."""
        BatchOperator._deferred.append(Deferred(self, receiver, into))

    def _aggregated(self) -> BatchOperator:
        return self._query("statistics", "", lambda view: aggregates(self.getColNames(), self.getColTypes(), view))

    def _limited(self, n: int) -> BatchOperator:
        if isinstance(n, bool) or not isinstance(n, int):
            raise ConfigurationError(f"print: expected a number of rows, got {n!r}")
        return self.firstN(n) if n > 0 else self

    def _run(self, job: Callable[[], _Result]) -> _Result:
        with interrupts_later(), running(self):
            result = job()
        BatchOperator._has_run = True
        return result


BatchOperator._family = BatchOperator
look_at_exit(
    lambda: (
        "lazyPrint() or its kin was called, or a sink was linked, and BatchOperator.execute() was not: nothing came of them"
        if BatchOperator._deferred
        else ""
    )
)


@dataclass(frozen=True)
class Deferred:
    """A result that the next job makes.

    Args:
        op: Whose rows.
        receiver: Who takes them; None where they go into a table.
        into: Name of that table.
    """

    op: BatchOperator
    receiver: Receiver | None
    into: str


def _run_deferred(deferred: Sequence[Deferred], name: str | None) -> None:
    whole = BatchOperator()
    whole._table = deferred[0].op.getOutputTable()
    whole._also_starts_what(*(each.op for each in deferred))
    received = [(each.op.getOutputTable(), each.receiver) for each in deferred if each.receiver is not None]
    inserted = [(each.op.getOutputTable(), each.into) for each in deferred if each.receiver is None]
    table_env = environment_of(whole._table)
    with interrupts_later(), running(whole):
        run_jointly(table_env, received, inserted, name or whole._job_name(*(into for _, into in inserted)))
    for _, receiver in received:
        receiver.finish()


class _FrameReceiver:
    """Makes a DataFrame of the rows and calls functions with it."""

    def __init__(self, table: Table, callbacks: Sequence[Callable[[pd.DataFrame], Any]]) -> None:
        self._table = table
        self._callbacks = callbacks
        self._batches: list[pa.RecordBatch] = []

    def take(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def finish(self) -> None:
        from operators.flink.collect import frame_of

        frame = frame_of(self._table, self._batches)
        for callback in self._callbacks:
            callback(frame)

    def abandon(self) -> None:
        self._batches.clear()


def _show(frame: pd.DataFrame, n: int, title: str | None) -> None:
    if title is not None:
        say(title)
    rows = None if n > 0 or len(frame) <= _SHOWN_ROWS else 20
    text = frame.to_string(max_rows=rows, max_colwidth=_SHOWN_CHARACTERS)
    say(text if len(frame) else f"{', '.join(map(str, frame.columns))}\n(no rows)")


class TableSourceBatchOp(TableSource, BatchOperator):
    """A plain PyFlink table with an end; what follows runs in that table's environment.

    Example:
        orders = TableSourceBatchOp(getMLEnv().btenv.from_path("orders"))
    """


class MemSourceBatchOp(MemorySource, BatchOperator):
    """Rows from memory: a list of tuples, or a DataFrame, which needs no schema.

    Example:
        people = MemSourceBatchOp([("ada", 36), ("ben", None)], "name STRING, age INT")

    Raises:
        ConfigurationError: The schema is wrong or missing. Rows that do not fit it are refused when the table is first needed.
    """
