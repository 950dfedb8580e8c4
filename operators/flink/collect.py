"""The rows of a table as a pandas DataFrame, with nulls that do not change the other cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from bridge.table_env import planning
from bridge.workarounds import columns_of


def to_dataframe(table: Any) -> pd.DataFrame:
    """Run the job of a PyFlink table and return its rows.

    PyFlink's own `Table.to_pandas` makes floats of integers beside a null, and so rounds large ones.
    """
    from pyflink.java_gateway import get_gateway
    from pyflink.table.serializers import ArrowSerializer
    from pyflink.table.types import create_arrow_schema

    names, types = columns_of(table)
    java_env = table._j_table.getTableEnvironment()
    jvm = get_gateway().jvm
    batch_size = java_env.getConfig().get(jvm.org.apache.flink.python.PythonOptions.MAX_ARROW_BATCH_SIZE)
    with planning():
        table._t_env._before_execute()
        batches = jvm.org.apache.flink.table.runtime.arrow.ArrowUtils.collectAsPandasDataFrame(table._j_table, batch_size)
    if not batches.hasNext():
        return frame_of(table, [])
    serializer = ArrowSerializer(create_arrow_schema(names, types), _row_type(names, types), None)
    return frame_of(table, list(serializer.load_from_iterator(batches)))


def frame_of(table: Any, batches: Sequence[pa.RecordBatch]) -> pd.DataFrame:
    """Return the rows of a PyFlink table that have come as Arrow batches."""
    import pytz
    from pyflink.table.types import LocalZonedTimestampType

    names, types = columns_of(table)
    if not batches:
        return pd.DataFrame({name: pd.Series(dtype=object) for name in names})
    timezone = pytz.timezone(table._j_table.getTableEnvironment().getConfig().getLocalTimeZone().getId())
    arrow = pa.Table.from_batches(batches)
    columns = {
        name: _series(column, timezone if isinstance(type_, LocalZonedTimestampType) else None)
        for name, type_, column in zip(names, types, arrow.columns)
    }
    return pd.DataFrame(columns)


def _row_type(names: list[str], types: list[Any]) -> Any:
    from pyflink.table import DataTypes

    return DataTypes.ROW([DataTypes.FIELD(name, type_) for name, type_ in zip(names, types)]).not_null()


def _series(column: pa.ChunkedArray, timezone: Any) -> Any:
    """Return the cells of a column; instants, which Arrow holds in UTC, in a time zone."""
    if column.null_count and not pa.types.is_timestamp(column.type) and not pa.types.is_floating(column.type):
        return pd.Series(column.to_pylist(), dtype=object)
    series = column.to_pandas(date_as_object=True)
    # PyFlink's tz_convert_from_internal would take them for local times, and so for other instants.
    return series if timezone is None else series.dt.tz_localize("UTC").dt.tz_convert(timezone)
