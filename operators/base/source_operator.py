"""Base classes of sources: tables created on first use, plain PyFlink tables, and rows in
memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from akdl.storage.files import FileError, fetch
from bridge.exceptions import ConfigurationError, SchemaError, refused_at
from bridge.host.program_folder import scratch_folder
from bridge.schema import Schema, split_watermark
from bridge.table_env import planning
from operators.base.operator import Operator
from operators.errors.flink_errors import readable
from operators.flink.arrow_columns import schema_of_frame, schema_of_types, warn_of_losses
from operators.flink.env import protect
from operators.flink.memory_table import memory_table
from operators.params.rendering import Description

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
                self._fix()
            # An error of our own stays as it is.
            except Exception as error:
                raise readable(error) from None
        return self._table

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        raise NotImplementedError


class TableSource(Operator[Any]):
    """A plain PyFlink table; its jobs run in that table's environment."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        if not hasattr(table, "_j_table"):
            raise ConfigurationError(
                f"{self._name}: expected a PyFlink Table, got a {type(table).__name__}"
            )
        self._table = table
        # The user may have created the environment without akdl.
        protect(self._table_env)


class MemorySource(SourceOperator):
    """Rows from memory: a list of rows (tuples or lists), a pandas DataFrame, or an Arrow table of
    any library.

    Args:
        data: In a DataFrame NaN, NaT, NA and None are null; the index is dropped, with a warning if
            it has a name.
        schemaStr: "name type, name type", in the order of the cells. Columns of a DataFrame or an
            Arrow table are matched by name, or by position if pandas has numbered them; the default
            follows from types and cells. A `WATERMARK FOR name AS expression` at the end declares
            the event time of a stream.
        caller: Name of this source in errors; by default that of its class.
    """

    def __init__(self, data: object, schemaStr: str | None = None, caller: str = "") -> None:
        import pandas as pd

        super().__init__()
        self._caller = name = caller or self._name
        # A reader of batches has no length before it is read.
        self._rows = len(data) if isinstance(data, Sized) else None
        if isinstance(data, pd.DataFrame):
            warn_of_losses(name, data)
        elif hasattr(data, "__arrow_c_stream__"):
            _check_polars(name, getattr(data, "schema", None))
            with refused_at(
                f"{name}: the {type(data).__name__} is not a table in Arrow",
                pa.ArrowException,
                TypeError,
            ):
                data = pa.RecordBatchReader.from_stream(data)
        elif not isinstance(data, (list, tuple)):
            raise ConfigurationError(
                f"{name}: expected a list of rows, a pandas DataFrame or an object with"
                " __arrow_c_stream__, such as a table of pyarrow or polars; got a"
                f" {type(data).__name__}"
            )
        self._data = data
        self._watermark: tuple[str, str] | None = None
        if schemaStr is None and isinstance(data, pd.DataFrame):
            self._schema = schema_of_frame(name, data)
            return
        if schemaStr is None and isinstance(data, pa.RecordBatchReader):
            self._schema = schema_of_types(
                name, [(field.name, field.type) for field in data.schema]
            )
            return
        if not isinstance(schemaStr, str):
            raise ConfigurationError(
                f"{name}: parameter 'schemaStr': expected \"name type, name type\", got"
                f' {schemaStr!r}: types are not guessed from the rows, so write them, such as "a'
                ' DOUBLE, b STRING"'
            )
        with refused_at(f"{name}: parameter 'schemaStr'", SchemaError):
            columns, self._watermark = split_watermark(schemaStr)
            self._schema = Schema.parse(columns)

    def _description(self) -> Description:
        settings = {} if self._rows is None else {"rows": str(self._rows)}
        return super()._description()._replace(settings=settings)

    def _known_columns(self) -> list[tuple[str, str]] | None:
        return [(column.name, column.type.sql) for column in self._schema]

    def _make(self, table_env: StreamTableEnvironment) -> Table:
        from bridge.flink.time_attributes import with_event_time

        table = memory_table(table_env, self._schema, self._data, self._caller)
        return with_event_time(table_env, table, self._watermark)


def _check_polars(where: str, schema: object) -> None:
    """Refuse types of polars for which Arrow has no form: of objects it would give the addresses in
    memory.
    """
    for name, type_ in schema.items() if isinstance(schema, Mapping) else ():
        # Texts in the description of a type, such as the labels of an Enum, may contain these
        # words, so they are removed first.
        if re.search(r"\b(Object|U?Int128)\b", re.sub("'[^']*'", "", str(type_))):
            raise ConfigurationError(
                f"{where}: column {name!r} has the type {type_} of polars, which Arrow does not"
                " have: convert it, for example with cast(pl.Decimal(38, 0)) or map_elements(str)"
            )


@contextmanager
def fetched(operator: str, address: str) -> Iterator[str]:
    """Provide a local path of the file or folder that `filePath` names while the block runs.

    A remote one is fetched into a scratch folder, which is removed after the block, so the caller
    must have read the file by then.

    Raises:
        ConfigurationError: There is no such file, or the address cannot be reached.
    """
    with scratch_folder() as folder:
        with refused_at(f"{operator}: parameter 'filePath'", FileError):
            path = fetch(address, folder)
        yield path
