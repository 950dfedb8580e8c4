"""Batch operators: bounded tables, computed when their rows are requested."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

import pyarrow as pa

from bridge.exceptions import ConfigurationError
from bridge.host.console import say
from bridge.table_env import planning
from operators.base.elastic import run
from operators.base.shaping import ShapingOperator, refuse_replacement
from operators.base.source_operator import MemorySource, TableSource
from operators.errors.exit_warnings import warn_at_exit
from operators.flink.collect import aggregates, arrow_of, frame_of, statistics_of, still_there
from operators.flink.env import getMLEnv
from operators.flink.joint_job import Receiver, collect, run_jointly

if TYPE_CHECKING:
    import pandas as pd
    from pyflink.table import StreamTableEnvironment, Table

# Alink prints tables of up to this many rows in full.
_SHOWN_ROWS = 21
# A cell is cut to this many characters, because cells of model tables have up to a million.
_SHOWN_CHARACTERS = 60
# This finds the order at the end of a sort list.
_DIRECTION = re.compile(r"\b(ASC|DESC|NULLS\s+(FIRST|LAST))\s*$", re.IGNORECASE)
_Result = TypeVar("_Result")
_Op = TypeVar("_Op", bound="BatchOperator")


class BatchOperator(ShapingOperator["BatchOperator"]):
    """A bounded table and the operators that can follow it. No job runs until a result is
    requested.
    """

    _deferred: ClassVar[list[Deferred]] = []
    # A job has run, or a model was saved, since the last `execute`. Alink's programs call `execute`
    # at their end in any case, so it must not fail then.
    _has_run: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        # Folder of the model, if this table only names it.
        self._model_dir: str | None = None
        # File of the model that this table holds, once it was requested. All predictors of the
        # model share it, so the training runs once.
        self._packed: str | None = None

    @staticmethod
    def _own_environment() -> StreamTableEnvironment:
        return getMLEnv().btenv

    def firstN(self, n: int) -> BatchOperator:
        """Take n rows, the first n of a sorted table."""
        _check_count("firstN", n)
        # In SQL, a LIMIT around a sorted subquery loses the order.
        with planning():
            return self._followed_by(self.getOutputTable().limit(n))

    def orderBy(
        self,
        field: str,
        limit: int = -1,
        fetch: int = -1,
        offset: int = -1,
        order: str | None = None,
    ) -> BatchOperator:
        """Sort the rows.

        Args:
            field: Columns to sort by, such as "score", "score DESC" or "a, b DESC".
            limit: Number of rows to keep; all if it is not positive.
            fetch: Same as `limit`, for use with `offset`.
            offset: Number of rows to skip.
            order: "asc" or "desc", applied to the last field; ascending by default.
        """
        if order is not None and str(order).lower() not in ("asc", "desc"):
            raise ConfigurationError(f"orderBy: expected order 'asc' or 'desc', got {order!r}")
        if order is not None and _DIRECTION.search(field):
            raise ConfigurationError(
                f"orderBy: field {field!r} already contains the order: remove order={order!r}"
            )
        most = limit if limit > 0 else fetch
        # The order stands on a line of its own, because the field may end with a comment.
        end = (
            f"\n{order or ''}"
            + (f" LIMIT {most}" if most > 0 else "")
            + (f" OFFSET {offset}" if offset > 0 else "")
        )
        return self._query(
            "orderBy", field, lambda view: f"SELECT * FROM {view} ORDER BY {field}{end}"
        )

    def groupBy(self, by: str, select: str) -> BatchOperator:
        """Aggregate the rows of each group to one row.

        Args:
            by: Columns to group by, such as "a, b".
            select: SQL select list, such as "a, SUM(x) AS total".
        """
        sql = f"{select} ... GROUP BY {by}"
        return self._query(
            "groupBy", sql, lambda view: f"SELECT {select}\nFROM {view} GROUP BY {by}"
        )

    def distinct(self) -> BatchOperator:
        """Remove duplicate rows."""
        return self._query("distinct", "DISTINCT", lambda view: f"SELECT DISTINCT * FROM {view}")

    def union(self, *others: BatchOperator) -> BatchOperator:
        """Combine the rows of tables with the same columns and remove duplicates."""
        return self._query(
            "union",
            "UNION",
            lambda *views: " UNION ".join(f"SELECT * FROM {v}" for v in views),
            *others,
        )

    def sampleWithSize(self, numSamples: int, withReplacement: bool = False) -> BatchOperator:
        """Draw a number of random rows, different ones in each job."""
        refuse_replacement("sampleWithSize", withReplacement)
        _check_count("sampleWithSize", numSamples)
        return self.orderBy("RAND()", limit=numSamples)

    def shuffle(self) -> BatchOperator:
        """Sort the rows randomly."""
        return self.orderBy("RAND()")

    def rebalance(self) -> BatchOperator:
        """Return the same rows; scripts receive equal shares in any case."""
        return self._followed_by(self.getOutputTable())

    def print(self, n: int = 0, title: str | None = None) -> BatchOperator:
        """Run the job and print its rows. Deferred results are computed by the same job.

        Args:
            n: Number of rows; 0 or less for all, or for the first and last ten of more than 21.
            title: Heading line.
        """
        _show(self._limited(n).collectToDataframe(), n, title)
        return self

    def lazyPrint(self, n: int = 0, title: str | None = None) -> BatchOperator:
        """Print like `print`, when the next job runs, such as by `BatchOperator.execute()`."""
        self._limited(n).lazyCollectToDataframe(lambda frame: _show(frame, n, title))
        return self

    def insertInto(self: _Op, table: str) -> _Op:
        """Insert all rows into a Flink table, in one job with deferred results, see
        `StreamOperator.insertInto`.
        """
        # Deferred results may need the same model or table, so they are computed in the same job
        # instead of a second one.
        if BatchOperator._deferred:
            self._defer(None, table)
            BatchOperator.execute()
        else:
            super().insertInto(table)
        BatchOperator._has_run = True
        return self

    def collectToArrow(self) -> pa.Table:
        """Run the job and return its rows as an Arrow table. Deferred results are computed by the
        same job.

        Instants have the session's time zone. `polars.DataFrame(op)`, `pyarrow.table(op)` and other
        functions that take a stream of Arrow call this method.

        Example:
            table = data.collectToArrow()
        """
        if BatchOperator._deferred:
            tables: list[pa.Table] = []
            self._defer(_TableReceiver(self.getOutputTable(), tables.append))
            BatchOperator.execute()
            BatchOperator._has_run = True
            return tables[0]
        table = self.getOutputTable()
        return arrow_of(table, still_there(*self._run(lambda: collect(table, self._job_name()))))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.collectToArrow().__arrow_c_stream__(requested_schema)

    def collectToDataframe(self) -> pd.DataFrame:
        """Run the job and return its rows. Deferred results are computed by the same job.

        Columns without nulls have the dtype of their type. A null is NaN in a column of floats and
        NaT in a column of times; columns of other types with nulls have the dtype object and hold
        None. Cells of an ARRAY column are numpy arrays, or lists if some array contains a null.
        Instants have the session's time zone; a column with an instant before 1678 is in UTC, since
        pandas cannot represent it in other zones.
        """
        return frame_of(self.collectToArrow())

    def lazyCollectToDataframe(self, *callbacks: Callable[[pd.DataFrame], Any]) -> BatchOperator:
        """Call functions with the rows when the next job runs, see `collectToDataframe`."""

        def call(table: pa.Table) -> None:
            frame = frame_of(table)
            for callback in callbacks:
                callback(frame)

        self._defer(_TableReceiver(self.getOutputTable(), call))
        return self

    def collectStatistics(self) -> pd.DataFrame:
        """Run the job and return a row per column: count, missing, sum, mean, variance,
        standardDeviation, min and max.
        """
        return statistics_of(self.getColNames(), self._aggregated().collectToDataframe())

    def lazyCollectStatistics(self, *callbacks: Callable[[pd.DataFrame], Any]) -> BatchOperator:
        """Call functions with the statistics when the next job runs, see `collectStatistics`."""
        names = self.getColNames()

        def call(frame: pd.DataFrame) -> None:
            for callback in callbacks:
                callback(statistics_of(names, frame))

        self._aggregated().lazyCollectToDataframe(call)
        return self

    def lazyPrintStatistics(self, title: str | None = None) -> BatchOperator:
        """Print the statistics when the next job runs, see `collectStatistics`."""
        return self.lazyCollectStatistics(lambda frame: _show(frame, len(frame), title))

    @staticmethod
    def execute(jobName: str | None = None) -> None:
        """Compute the deferred results of sinks and of methods such as `lazyPrint`, in one job per
        environment.

        Args:
            jobName: Name of the job in Flink's web UI.

        Raises:
            ConfigurationError: No result is deferred, and no job has run since the last call.
        """
        # The list is emptied before the job runs. Otherwise results of a job that failed would run
        # again with the next one.
        deferred = BatchOperator._deferred
        BatchOperator._deferred = []
        has_run = BatchOperator._has_run
        BatchOperator._has_run = False
        if not deferred and not has_run:
            raise ConfigurationError(
                "BatchOperator.execute() has nothing to run: first call lazyPrint() on an operator,"
                " or link it to a sink"
            )
        # A Flink job belongs to one environment. Results are grouped by it in the order in which
        # they were deferred.
        of_environments: dict[int, list[Deferred]] = {}
        for each in deferred:
            of_environments.setdefault(id(each.op._table_env), []).append(each)
        for of_one in of_environments.values():
            _run_deferred(of_one, jobName)

    def _defer(self, receiver: Receiver | None, into: str = "") -> None:
        """Let the next `execute` compute this table."""
        BatchOperator._deferred.append(Deferred(self, receiver, into))

    def _aggregated(self) -> BatchOperator:
        return self._query(
            "statistics", "", lambda view: aggregates(self.getColNames(), self.getColTypes(), view)
        )

    def _limited(self, n: int) -> BatchOperator:
        if type(n) is not int:
            raise ConfigurationError(f"print: expected a number of rows, got {n!r}")
        return self.firstN(n) if n > 0 else self

    def _run(self, job: Callable[[], _Result]) -> _Result:
        """Run a job, and note that there was one.

        Alink's programs call `execute()` at their end in any case, so it must not fail after a job.
        """
        result = run(self, job)
        BatchOperator._has_run = True
        return result


BatchOperator._family = BatchOperator
_NOT_RUN = (
    "lazyPrint() or a sink was used but BatchOperator.execute() was never called, so nothing ran"
)
warn_at_exit(lambda: _NOT_RUN if BatchOperator._deferred else "")


class Deferred(NamedTuple):
    """A result of the next job: rows for a receiver, or without one for the Flink table `into`.

    Deferred results wait in a class attribute, as Alink's `BatchOperator.execute()` has no
    operator.
    """

    op: BatchOperator
    receiver: Receiver | None
    into: str


def _run_deferred(deferred: Sequence[Deferred], name: str | None) -> None:
    """Run one job for results of one environment, and pass the rows to their receivers.

    The receivers finish after the job, because they call functions of the user, which may take long
    or start a job.
    """
    # A job is run for one operator. This one has the processes of all tables of the job.
    combined = BatchOperator()
    combined._table = deferred[0].op.getOutputTable()
    combined._include(*(each.op for each in deferred))
    received = [
        (each.op.getOutputTable(), each.receiver) for each in deferred if each.receiver is not None
    ]
    inserted = [(each.op.getOutputTable(), each.into) for each in deferred if each.receiver is None]
    job_name = name or combined._job_name(*(into for _, into in inserted))
    run(combined, lambda: run_jointly(combined._table_env, received, inserted, job_name))
    for _, receiver in received:
        receiver.finish()


class _TableReceiver(Receiver):
    """Receiver that gathers a table in memory and passes it to a function after the job."""

    def __init__(self, table: Table, callback: Callable[[pa.Table], object]) -> None:
        self._table = table
        self._callback = callback
        self._batches: list[pa.RecordBatch] = []

    def take(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def finish(self) -> None:
        self._callback(arrow_of(self._table, self._batches))

    def abandon(self) -> None:
        self._batches.clear()


def _check_count(method: str, n: object) -> None:
    if type(n) is not int or n < 1:
        raise ConfigurationError(f"{method}: expected a number of rows of at least 1, got {n!r}")


def _show(frame: pd.DataFrame, n: int, title: str | None) -> None:
    """Print a table; without a number of rows, a long table is cut in the middle."""
    if title is not None:
        say(title)
    rows = None if n > 0 or len(frame) <= _SHOWN_ROWS else 20
    text = frame.to_string(max_rows=rows, max_colwidth=_SHOWN_CHARACTERS)
    # pandas would print "Empty DataFrame" and its index here.
    say(text if len(frame) else f"{', '.join(map(str, frame.columns))}\n(no rows)")


class TableSourceBatchOp(TableSource, BatchOperator):
    """A plain, bounded PyFlink table; jobs run in that table's environment.

    Example:
        orders = TableSourceBatchOp(getMLEnv().btenv.from_path("orders"))
    """


class MemSourceBatchOp(MemorySource, BatchOperator):
    """Rows from memory: a list of tuples with a schema, or a DataFrame.

    Example:
        people = MemSourceBatchOp([("ada", 36), ("ben", None)], "name STRING, age INT")

    Raises:
        ConfigurationError: The schema is wrong or missing. Rows that do not fit raise an error when
            the table is first needed.
    """


BatchOperator._table_source = TableSourceBatchOp
BatchOperator._memory_source = MemSourceBatchOp
