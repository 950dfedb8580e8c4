"""Base classes of sources: tables created on first use, plain PyFlink tables, and rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from bridge.errors.flink_errors import readable
from bridge.exceptions import ConfigurationError, SchemaError
from bridge.schema import Schema, split_watermark
from bridge.table_env import planning
from bridge.workarounds.beam_workers import fix_workers
from bridge.workarounds.local_servers import close_servers
from bridge.workarounds.pyflink_defects import know_planner
from operators.base.job import environment_of
from operators.base.operator import Operator
from operators.params.rendering import Description
from operators.tables.frame_columns import schema_of_frame, warn_of_losses
from operators.tables.memory_table import memory_table

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table


class SourceOperator(Operator[Any]):
    """Base of sources that create their table on first use, in the current environment."""

    @planning()
    def getOutputTable(self) -> Table:
        """Return the plain PyFlink table, for use in SQL or the Table API."""
        if self._table is None:
            try:
                self._table = self._make(self._own_environment())
            except ConfigurationError:
                raise
            except Exception as error:
                raise readable(error) from None
        return self._table

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        raise NotImplementedError(type(self).__name__)


class TableSource(Operator[Any]):
    """A plain PyFlink table; its jobs run in that table's environment."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        if not hasattr(table, "get_resolved_schema"):
            raise ConfigurationError(f"{type(self).__name__}: expected a PyFlink Table, got a {type(table).__name__}")
        know_planner(environment_of(table))
        fix_workers()  # the user may have created the environment
        close_servers(environment_of(table))
        self._table = table


class MemorySource(SourceOperator):
    """Rows from memory: a list of rows (tuples or lists), or a pandas DataFrame.

    Args:
        data: In a DataFrame NaN, NaT, NA and None are null; the index is dropped, with a warning if it has a name.
        schemaStr: "name type, name type", in the order of the cells. Columns of a DataFrame are matched by name, or by
            position if they are numbered 0, 1, 2; the default follows from the cells, see `operators.tables.frame_columns`. A
            `WATERMARK FOR name AS expression` at the end declares the event time of a stream.
    """

    def __init__(self, data: Sequence[Sequence[object]] | pd.DataFrame, schemaStr: str | None = None) -> None:
        super().__init__()
        name = type(self).__name__
        if not isinstance(data, (pd.DataFrame, list, tuple)):
            raise ConfigurationError(f"{name}: expected a list of rows or a pandas DataFrame, got a {type(data).__name__}")
        if isinstance(data, pd.DataFrame):
            warn_of_losses(name, data)
        self._data = data
        self._watermark: tuple[str, str] | None = None
        if schemaStr is None and isinstance(data, pd.DataFrame):
            self._schema = schema_of_frame(name, data)
            return
        if not isinstance(schemaStr, str):
            raise ConfigurationError(
                f"{name}: parameter 'schemaStr': expected \"name type, name type\", got {schemaStr!r}: types are not "
                'guessed from the rows, so write them, such as "a DOUBLE, b STRING"'
            )
        try:
            columns, self._watermark = split_watermark(schemaStr)
            self._schema = Schema.parse(columns)
        except SchemaError as error:
            raise ConfigurationError(f"{name}: parameter 'schemaStr': {error}") from None

    def _description(self) -> Description:
        return replace(super()._description(), settings={"rows": str(len(self._data))})

    def _known_columns(self) -> list[tuple[str, str]] | None:
        return [(column.name, column.type.sql) for column in self._schema]

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        from bridge.flink.time_attributes import with_event_time

        table = memory_table(table_env, self._schema, self._data, type(self).__name__)
        return with_event_time(table_env, table, self._watermark)
