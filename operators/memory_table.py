"""Rows of this program as a table of Flink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from akdl.wire.column_type import MEANINGS, ColumnType
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema, quoted

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table


def memory_table(table_env: StreamTableEnvironment, schema: Schema, data: Sequence[Sequence[Any]] | pd.DataFrame) -> Table:
    """Return rows of this program as a table.

    Args:
        table_env: Where the table is made.
        schema: Its columns.
        data: Rows in the order of the columns, or a DataFrame, whose columns are taken by their names if they are the same.

    Raises:
        ConfigurationError: The rows do not fit the schema.
    """
    from pyflink.table import DataTypes

    _check_widths(schema, data)
    if not len(data):
        columns = ", ".join(f"CAST(NULL AS {c.type.sql}) AS {quoted(c.name)}" for c in schema)
        return table_env.sql_query(f"SELECT {columns} FROM (VALUES (0)) AS nothing(x) WHERE x > 0")
    row_type = DataTypes.ROW([DataTypes.FIELD(c.name, _data_type(c.type)) for c in schema])
    try:
        if isinstance(data, pd.DataFrame):
            return table_env.from_pandas(_in_utc(_in_order(schema, data)), row_type)
        return table_env.from_elements([tuple(map(_cell, row)) for row in data], row_type)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigurationError(f"MemSourceBatchOp: {': '.join(map(str, error.args))}") from None


def _in_order(schema: Schema, frame: pd.DataFrame) -> pd.DataFrame:
    names, given = schema.names, [str(name) for name in frame.columns]
    frame = frame.set_axis(given, axis=1)
    if sorted(given) == sorted(names):
        return frame[names]
    moved = [name for place, name in enumerate(given) if name in names and names.index(name) != place]
    if moved:
        raise ConfigurationError(
            f"MemSourceBatchOp: the DataFrame has the columns {', '.join(given)}, the schema {', '.join(names)}: "
            f"{', '.join(moved)} would get another column's values; give both the same names, or none in common"
        )
    return frame.set_axis(names, axis=1)


def _check_widths(schema: Schema, data: Sequence[Sequence[Any]] | pd.DataFrame) -> None:
    width = len(schema.columns)
    if isinstance(data, pd.DataFrame):
        if len(data.columns) != width:
            raise ConfigurationError(f"MemSourceBatchOp: {len(data.columns)} columns for a schema of {width}")
        return
    for number, row in enumerate(data):
        if not isinstance(row, (list, tuple)):
            raise ConfigurationError(f"MemSourceBatchOp: row {number}: expected a tuple or a list, got {row!r}")
        if len(row) != width:
            raise ConfigurationError(f"MemSourceBatchOp: row {number} has {len(row)} cells for a schema of {width}: {row}")


def _in_utc(frame: pd.DataFrame) -> pd.DataFrame:
    """Return instants in UTC: PyFlink would give Flink those of other zones as local times, and so as other instants."""
    zoned = frame.select_dtypes("datetimetz")
    return frame.assign(**{name: zoned[name].dt.tz_convert("UTC").dt.tz_localize(None) for name in zoned.columns})


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
