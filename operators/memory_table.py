"""Rows of this program as a table of Flink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from akdl.wire.column_type import MEANINGS, ColumnType
from bridge.exceptions import ConfigurationError
from bridge.host.program_folder import program_folder
from bridge.schema import Schema, quoted
from bridge.workarounds import keep_rows_in
from operators.frame_columns import fitted, misfit

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table


def memory_table(
    table_env: StreamTableEnvironment, schema: Schema, data: Sequence[Sequence[Any]] | pd.DataFrame, where: str
) -> Table:
    """Return rows of this program as a table.

    Args:
        table_env: Where the table is made.
        schema: Its columns.
        data: Rows in the order of the columns, or a DataFrame, see `operators.frame_columns.fitted`.
        where: Name of the operator, for errors.

    Raises:
        ConfigurationError: The rows do not fit the schema.
    """
    from pyflink.table import DataTypes
    from pyflink.table.types import create_arrow_schema

    keep_rows_in(program_folder)
    row_type = DataTypes.ROW([DataTypes.FIELD(c.name, _data_type(c.type)) for c in schema])
    if isinstance(data, pd.DataFrame):
        data = fitted(where, schema, data)
        _check_nulls(where, schema, data)
    else:
        _check_widths(where, schema, data)
    if not len(data):
        columns = ", ".join(f"CAST(NULL AS {c.type.cast_sql}) AS {quoted(c.name)}" for c in schema)
        return table_env.sql_query(f"SELECT {columns} FROM (VALUES (0)) AS nothing(x) WHERE x > 0")
    try:
        if isinstance(data, pd.DataFrame):
            return table_env.from_pandas(data, row_type)
        return table_env.from_elements([tuple(map(_cell, row)) for row in data], row_type)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        if isinstance(data, pd.DataFrame):
            found = misfit(where, schema, data, create_arrow_schema(row_type.field_names(), row_type.field_types()))
            if found is not None:
                raise found from None
        raise ConfigurationError(f"{where}: {': '.join(map(str, error.args))}") from None


def _check_nulls(where: str, schema: Schema, frame: pd.DataFrame) -> None:
    for column in schema:
        if not column.type.nullable and frame[column.name].isna().any():
            row = int(frame[column.name].isna().to_numpy().argmax())
            raise ConfigurationError(f"{where}: column {column.name!r} is {column.type.sql}, and row {row} has no value there")


def _check_widths(where: str, schema: Schema, rows: Sequence[Sequence[Any]]) -> None:
    width = len(schema.columns)
    for number, row in enumerate(rows):
        if not isinstance(row, (list, tuple)):
            raise ConfigurationError(f"{where}: row {number}: expected a tuple or a list, got {row!r}")
        if len(row) != width:
            raise ConfigurationError(f"{where}: row {number} has {len(row)} cells for a schema of {width}: {row}")


def _cell(value: Any) -> Any:
    """Return a cell as PyFlink takes it: octets as a bytearray."""
    if isinstance(value, (list, tuple)):
        return [_cell(element) for element in value]
    if isinstance(value, np.ndarray):
        return value.ravel().tolist()  # of a tensor, as Alink's records hold it
    return bytearray(value) if isinstance(value, bytes) else value


def _data_type(column: ColumnType) -> Any:
    from pyflink.table import DataTypes

    name = column.arguments and MEANINGS[column.kind].with_length or column.kind.value
    element = getattr(DataTypes, name)(*column.arguments)
    if not column.is_array:
        return element if column.nullable else element.not_null()
    array = DataTypes.ARRAY(element if column.element_nullable else element.not_null())
    return array if column.nullable else array.not_null()
