"""Rows of a table in Arrow, and as a pandas DataFrame, and statistics of its columns.

PyFlink's own conversions are not used, because they change cells: a null turns the integers of its
column into floats, and instants are taken for local times.
"""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from bridge.schema import quoted
from bridge.workarounds.pyflink_defects import columns_of, know_zone

if TYPE_CHECKING:
    import pandas as pd

# Flink numbers the kinds of rows. These are UPDATE_BEFORE and DELETE, which retract an earlier row.
_TAKES_BACK = (1, 3)
# pandas crashes when it shows an earlier instant in a time zone other than UTC.
_SHOWN_IN_ZONES = datetime.datetime(1678, 1, 1, tzinfo=datetime.timezone.utc)


def still_there(
    batches: Sequence[pa.RecordBatch], kinds: Sequence[bytes | None]
) -> Sequence[pa.RecordBatch]:
    """Rows that no later row retracts, in their order.

    Args:
        batches: All rows of a job, in the order of their arrival.
        kinds: For each batch, the kind of each row as a byte, or None if all rows are new.
    """
    if not any(kinds):
        return batches
    # Place of each row, as the number of its batch and of the row in that batch, for all equal
    # rows.
    places: dict[str, list[tuple[int, int]]] = {}
    for number, (batch, of_rows) in enumerate(zip(batches, kinds)):
        rows = zip(*(column.to_pylist() for column in batch.columns))
        for place, (row, kind) in enumerate(zip(rows, of_rows or bytes(batch.num_rows))):
            # The text of a row is the key, because cells such as lists cannot be hashed, and NaN
            # does not equal itself.
            equal = places.setdefault(repr(row), [])
            if kind not in _TAKES_BACK:
                equal.append((number, place))
            elif equal:
                # A retraction takes back the earliest equal row, as the rows carry no key.
                equal.pop(0)
    left: list[list[int]] = [[] for _ in batches]
    # Sorting restores the order of arrival, which the grouping by equal rows has lost.
    for number, place in sorted(itertools.chain(*places.values())):
        left[number].append(place)
    # Batch by batch: Arrow cannot put more than 2 GB of text into one column of strings.
    return [
        pc.take(batch, pa.array(kept, pa.int64())) for batch, kept in zip(batches, left) if kept
    ]


def arrow_of(table: Any, batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Arrow table of a table's batches, with instants in the session's time zone."""
    from bridge.flink.arrow_operators import arrow_types

    know_zone(table._t_env)
    names, types = columns_of(table)
    zone = _zone(table._j_table.getTableEnvironment().getConfig().getLocalTimeZone())
    arrow = pa.Table.from_batches(batches) if batches else arrow_types(table).empty_table()
    return pa.table(
        [_in_zone(cells, type_, zone) for type_, cells in zip(types, arrow.columns)], names
    )


def frame_of(arrow: pa.Table) -> pd.DataFrame:
    """DataFrame of an Arrow table; unlike PyFlink's `Table.to_pandas`, it keeps integers exact next
    to nulls.
    """
    import pandas as pd

    return pd.DataFrame(
        {name: _series(cells) for name, cells in zip(arrow.column_names, arrow.columns)}
    )


def _zone(zone: Any) -> str:
    """Arrow's name of a time zone of Java: "+08:00" instead of "GMT+08:00"."""
    import pytz

    name: str = zone.getId()
    # Java's own form of an offset has no counterpart in the table of zones, and Arrow needs it
    # without the GMT in front.
    return name if name in pytz.all_timezones_set else zone.normalized().getId().replace("Z", "UTC")


def _in_zone(column: pa.ChunkedArray, type_: Any, zone: str) -> pa.ChunkedArray:
    """Attach a time zone to instants; Flink's Arrow stores them in UTC without saying so."""
    arrow = type_in_zone(column.type, type_, zone)
    # PyFlink's tz_convert_from_internal would take them for local times, and so for other instants.
    if arrow == column.type:
        return column
    return pa.chunked_array([chunk.view(arrow) for chunk in column.chunks], arrow)


def type_in_zone(arrow: pa.DataType, type_: Any, zone: str) -> pa.DataType:
    """Arrow type of a column, with the zone of its instants, also inside arrays, maps and rows.

    Args:
        arrow: Flink's Arrow type of the column.
        type_: PyFlink's type, which alone says if a timestamp is an instant.
        zone: Name of the time zone.
    """
    from pyflink.table.types import ArrayType, LocalZonedTimestampType, MapType, RowType

    if isinstance(type_, LocalZonedTimestampType):
        return pa.timestamp(arrow.unit, zone)
    if isinstance(type_, ArrayType):
        return pa.list_(
            arrow.value_field.with_type(type_in_zone(arrow.value_type, type_.element_type, zone))
        )
    if isinstance(type_, MapType):
        key = arrow.key_field
        item = arrow.item_field
        key = key.with_type(type_in_zone(key.type, type_.key_type, zone))
        return pa.map_(key, item.with_type(type_in_zone(item.type, type_.value_type, zone)))
    if isinstance(type_, RowType):
        inner = type_.field_types()
        return pa.struct(
            [
                field.with_type(type_in_zone(field.type, each, zone))
                for field, each in zip(arrow, inner)
            ]
        )
    return arrow


def _series(column: pa.ChunkedArray) -> Any:
    """Cells of a column, in numpy where numpy holds them exactly."""
    import pandas as pd

    # A column without nulls takes the fast way through numpy. Python objects are exact but use many
    # times the memory.
    if pa.types.is_nested(column.type):
        inexact = any(map(_is_inexact_in_numpy, column.chunks))
    else:
        # pandas has NaT and NaN for nulls of times and floats. For other types a null would turn
        # numbers into floats.
        inexact = (
            column.null_count
            and not pa.types.is_timestamp(column.type)
            and not pa.types.is_floating(column.type)
        )
    if (
        pa.types.is_timestamp(column.type)
        and column.type.tz
        and pc.any(pc.less(column, pa.scalar(_SHOWN_IN_ZONES, column.type))).as_py()
    ):
        # These are the same instants, in the one zone in which pandas can show them.
        column = column.cast(pa.timestamp(column.type.unit, "UTC"))
    if inexact:
        return pd.Series(column.to_pylist(), dtype=object)
    return column.to_pandas(date_as_object=True)


def _is_inexact_in_numpy(array: pa.Array) -> bool:
    """True where numpy would change nested cells: a null turns integers into floats, time zones are
    dropped.
    """
    kind = array.type
    if (
        array.null_count
        or pa.types.is_map(kind)
        or pa.types.is_struct(kind)
        or (pa.types.is_timestamp(kind) and kind.tz)
    ):
        return True
    return pa.types.is_list(kind) and _is_inexact_in_numpy(array.flatten())


# An INTERVAL begins with the letters of INT, but it is not a number.
_NUMBER = re.compile("TINYINT|SMALLINT|INT(?!ERVAL)|BIGINT|FLOAT|DOUBLE|DECIMAL")
# The statistics of numbers are computed from doubles, because in Flink the sum of a TINYINT column
# is a TINYINT, which soon overflows. `{0}` stands for the column.
_OF_ALL = {"count": "COUNT(*)", "missing": "COUNT(*) - COUNT({0})"}
_OF_NUMBERS = {
    "sum": "SUM({0})",
    "mean": "AVG({0})",
    "variance": "VAR_SAMP({0})",
    "standardDeviation": "STDDEV_SAMP({0})",
    "min": "MIN({0})",
    "max": "MAX({0})",
}


def aggregates(names: Sequence[str], types: Sequence[str], view: str) -> str:
    cells = []
    for place, (name, type_) in enumerate(zip(names, types)):
        # The names of results have the column's place, because a column may have any characters in
        # its name.
        cells += [f"{sql.format(quoted(name))} AS {key}_{place}" for key, sql in _OF_ALL.items()]
        number = f"CAST({quoted(name)} AS DOUBLE)"
        if _NUMBER.match(type_):
            cells += [f"{sql.format(number)} AS {key}_{place}" for key, sql in _OF_NUMBERS.items()]
    return f"SELECT {', '.join(cells)} FROM {view}"


def statistics_of(names: Sequence[str], aggregated: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    (row,) = aggregated.to_dict("records")
    keys = [*_OF_ALL, *_OF_NUMBERS]
    cells = [
        [name, *(row.get(f"{key}_{place}") for key in keys)] for place, name in enumerate(names)
    ]
    return pd.DataFrame(cells, columns=["colName", *keys])
