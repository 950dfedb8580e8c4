"""The rows of a table as a pandas DataFrame, with nulls that do not change the other cells."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from bridge.workarounds import columns_of

_TAKES_BACK = (1, 3)  # kinds of rows


def still_there(batches: Sequence[pa.RecordBatch], kinds: Sequence[bytes | None]) -> Sequence[pa.RecordBatch]:
    """Return the rows that no later row takes back, in their order.

    Args:
        batches: Rows.
        kinds: Their kinds, see `operators.flink.joint_job.collect`.
    """
    if not any(kinds):
        return batches
    places: dict[str, list[int]] = {}  # of equal rows
    every = pa.Table.from_batches(batches)
    flat = b"".join(kind or bytes(batch.num_rows) for batch, kind in zip(batches, kinds))
    rows = zip(*(column.to_pylist() for column in every.columns))
    for place, (row, kind) in enumerate(zip(rows, flat)):
        equal = places.setdefault(repr(row), [])
        if kind not in _TAKES_BACK:
            equal.append(place)
        elif equal:
            equal.pop(0)
    left: pa.Table = every.take(sorted(itertools.chain(*places.values())))
    return list(left.combine_chunks().to_batches())


def frame_of(table: Any, batches: Sequence[pa.RecordBatch]) -> pd.DataFrame:
    """Return the rows of a PyFlink table that have come as Arrow batches.

    PyFlink's own `Table.to_pandas` makes floats of integers beside a null, and so rounds large ones.
    """
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


def _series(column: pa.ChunkedArray, timezone: Any) -> Any:
    """Return the cells of a column; instants, which Arrow holds in UTC, in a time zone."""
    if column.null_count and not pa.types.is_timestamp(column.type) and not pa.types.is_floating(column.type):
        return pd.Series(column.to_pylist(), dtype=object)
    series = column.to_pandas(date_as_object=True)
    # PyFlink's tz_convert_from_internal would take them for local times, and so for other instants.
    return series if timezone is None else series.dt.tz_localize("UTC").dt.tz_convert(timezone)
