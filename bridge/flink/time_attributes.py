"""Time attributes of tables that become streams: one may stay an event time, the others become
plain timestamps.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from pyflink.table import Schema as FlinkSchema
from pyflink.table import StreamTableEnvironment, Table

from bridge.flink.arrow_operators import column_types
from bridge.schema import quoted
from bridge.table_env import is_streaming

ROWTIME = "ROWTIME"
PROCTIME = "PROCTIME"
_MARK = re.compile(rf"\*({ROWTIME}|{PROCTIME})\*")


def time_attributes(table: Table) -> dict[str, str]:
    """Columns of a table that are time attributes, and the kind of each: ROWTIME or PROCTIME."""
    found = {}
    schema = table._j_table.getResolvedSchema()
    # This saves a call of the JVM for each column of a table without them: there may be thousands.
    if _MARK.search(schema.toString()) is None:
        return {}
    for name, data_type in zip(schema.getColumnNames(), schema.getColumnDataTypes()):
        mark = _MARK.search(data_type.getLogicalType().asSummaryString())
        if mark is not None:
            found[name] = mark.group(1)
    return found


def with_plain_times(
    table_env: StreamTableEnvironment,
    table: Table,
    view: str,
    names: Collection[str],
    rowtime: str | None = None,
) -> Table:
    """Select some columns of a table, in their order; of event times, only the column `rowtime`
    stays one.
    """
    times = time_attributes(table)
    cells = []
    for name, type_ in column_types(table):
        if name in names:
            is_plain = times.get(name) == ROWTIME and name != rowtime
            # CAST does not accept NOT NULL; the column keeps it all the same.
            cast = (
                f"CAST({quoted(name)} AS {type_.copy(True).asSerializableString()}) AS "
                if is_plain
                else ""
            )
            cells.append(cast + quoted(name))
    table_env.create_temporary_view(view, table)
    return table_env.sql_query(f"SELECT {', '.join(cells)} FROM {view}")


def event_time(watermark: tuple[str, str] | None, key: Sequence[str] = ()) -> FlinkSchema:
    """Schema that declares an event time, from the column and the SQL expression of its watermark,
    and a primary key.
    """
    builder = FlinkSchema.new_builder()
    if watermark is not None:
        builder.watermark(*watermark)
    if key:
        builder.primary_key(*key)
    return builder.build()


def with_event_time(
    table_env: StreamTableEnvironment, table: Table, watermark: tuple[str, str] | None
) -> Table:
    """Table with the event time that a watermark declares; in batch mode, the table unchanged."""
    if watermark is None or not is_streaming(table_env):
        return table
    return table_env.from_data_stream(table_env.to_data_stream(table), event_time(watermark))
