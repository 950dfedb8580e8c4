"""Sources of rows of this program."""

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
from operators.tables.frame_columns import schema_of_frame, tell_of_what_stays
from operators.tables.memory_table import memory_table

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table


class SourceOperator(Operator[Any]):
    """A source makes its table when it is first needed, in the environment of that moment."""

    @planning()
    def getOutputTable(self) -> Table:
        """Return the table as plain PyFlink, to go on in SQL or the Table API."""
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
    """A plain PyFlink table; what follows runs in that table's environment."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        if not hasattr(table, "get_resolved_schema"):
            raise ConfigurationError(f"{type(self).__name__}: expected a PyFlink Table, got a {type(table).__name__}")
        know_planner(environment_of(table))
        fix_workers()  # the environment may be the user's own
        close_servers(environment_of(table))
        self._table = table


class MemorySource(SourceOperator):
    """Rows from memory.

    Args:
        data: A list of rows (tuples or lists), or a pandas DataFrame. In a DataFrame NaN, NaT, NA and None are null, and the
            index is left out, with a warning where it has a name.
        schemaStr: "name type, name type". Cells of rows stand in its order. Columns of a DataFrame are taken by name, and
            in order where they are only numbered 0, 1, 2. None, for a DataFrame: the types that hold its cells, see
            `operators.tables.frame_columns`. At its end, `WATERMARK FOR name AS expression` makes a column the event
            time of a stream.

    Raises:
        ConfigurationError: The schema is wrong, or is missing where it cannot be found. Rows that do not fit it are refused
            when the table is first needed.
    """

    def __init__(self, data: Sequence[Sequence[Any]] | pd.DataFrame, schemaStr: str | None = None) -> None:
        super().__init__()
        name = type(self).__name__
        if not isinstance(data, (pd.DataFrame, list, tuple)):
            raise ConfigurationError(f"{name}: expected a list of rows or a pandas DataFrame, got a {type(data).__name__}")
        if isinstance(data, pd.DataFrame):
            tell_of_what_stays(name, data)
        self._data = data
        self._watermark: tuple[str, str] | None = None
        if schemaStr is None and isinstance(data, pd.DataFrame):
            self._schema = schema_of_frame(name, data)
            return
        if not isinstance(schemaStr, str):
            raise ConfigurationError(
                f"{name}: parameter 'schemaStr': expected \"name type, name type\", got {schemaStr!r}: types are not guessed "
                'from the rows, so write them, such as "a DOUBLE, b STRING"'
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
