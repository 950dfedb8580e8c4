"""Batch operators: tables with an end, run when their rows are asked for, and where they start in a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import pandas as pd

from bridge.exceptions import ConfigurationError, SchemaError
from bridge.host.console import say
from bridge.schema import Schema
from bridge.table_env import planning
from operators.base_operator import Operator, Source, TableSource, running
from operators.flink.env import getMLEnv
from operators.memory_table import memory_table

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table

_SHOWN_ROWS = 21  # as many rows as Alink prints without leaving some out
_SHOWN_CHARACTERS = 60  # of one cell; a row of a model table has a million
_Result = TypeVar("_Result")


class BatchOperator(Operator["BatchOperator"]):
    """A bounded table and the operators that can follow it. Nothing runs before a result is asked for."""

    _deferred: ClassVar[list[Callable[[], BatchOperator]]] = []

    def __init__(self) -> None:
        super().__init__()
        self._packed: str | None = None  # the model that this table holds, once it was asked for, as a file

    @staticmethod
    def _own_environment() -> StreamTableEnvironment:
        return getMLEnv().btenv

    @staticmethod
    def fromTable(table: Table) -> TableSourceBatchOp:
        """Start from a plain PyFlink table; what follows runs in that table's environment."""
        return TableSourceBatchOp(table)

    @staticmethod
    def fromDataframe(df: pd.DataFrame, schemaStr: str) -> BatchOperator:
        """Start from a pandas DataFrame; `schemaStr` is "name type, name type" in the order of its columns."""
        return MemSourceBatchOp(df, schemaStr)

    def print(self, n: int = 0, title: str | None = None) -> BatchOperator:
        """Run the job and print its rows.

        Args:
            n: Number of rows; 0 stands for all, or the first and last ten where there are more than 21.
            title: A line to print before them.
        """
        self._show(self._limited(n).collectToDataframe(), n, title)
        return self

    def lazyPrint(self, n: int = 0, title: str | None = None) -> BatchOperator:
        """Print as `print` does, when `BatchOperator.execute()` is called."""
        BatchOperator._deferred.append(lambda: self.print(n, title))
        return self

    def collectToDataframe(self) -> pd.DataFrame:
        """Run the job and return its rows.

        Columns without nulls have the dtype of their type; where there are nulls, integers and booleans stay exact in a
        column of objects with None.
        """
        from operators.flink.collect import to_dataframe

        table = self.getOutputTable()
        frame: pd.DataFrame = self._run(lambda: to_dataframe(table))
        return frame

    @staticmethod
    def execute() -> None:
        """Run what `lazyPrint` has put off.

        Raises:
            ConfigurationError: Nothing was put off.
        """
        deferred, BatchOperator._deferred = BatchOperator._deferred, []
        if not deferred:
            raise ConfigurationError("BatchOperator.execute() has nothing to run: call lazyPrint() on an operator first")
        for run in deferred:
            run()

    def _limited(self, n: int) -> BatchOperator:
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise ConfigurationError(f"print: expected a number of rows of at least 0, got {n!r}")
        # In SQL, a LIMIT around a sorted table would make Flink forget the order.
        with planning():
            return self._followed_by(self.getOutputTable().limit(n)) if n else self

    def _run(self, job: Callable[[], _Result]) -> _Result:
        with running(self):
            return job()

    @staticmethod
    def _show(frame: pd.DataFrame, n: int, title: str | None) -> None:
        if title is not None:
            say(title)
        rows = None if n or len(frame) <= _SHOWN_ROWS else 20
        text = frame.to_string(max_rows=rows, max_colwidth=_SHOWN_CHARACTERS)
        say(text if len(frame) else f"{', '.join(map(str, frame.columns))}\n(no rows)")


BatchOperator._family = BatchOperator


class TableSourceBatchOp(TableSource, BatchOperator):
    """A plain PyFlink table with an end; what follows runs in that table's environment."""


class MemSourceBatchOp(Source, BatchOperator):
    """Rows from memory.

    Args:
        data: A list of rows (tuples or lists), or a pandas DataFrame. In a DataFrame NaN and None are null.
        schemaStr: "name type, name type", in the order of the cells. The columns of a DataFrame with the same names are
            taken by their names, those of one with other names in their order.
    """

    def __init__(self, data: Sequence[Sequence[Any]] | pd.DataFrame, schemaStr: str) -> None:
        super().__init__()
        if not isinstance(data, (pd.DataFrame, list, tuple)):
            raise ConfigurationError(
                f"MemSourceBatchOp: expected a list of rows or a pandas DataFrame, got a {type(data).__name__}"
            )
        try:
            self._schema = Schema.parse(schemaStr)
        except SchemaError as error:
            raise ConfigurationError(f"MemSourceBatchOp: parameter 'schemaStr': {error}") from None
        self._data = data

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        return memory_table(table_env, self._schema, self._data)
