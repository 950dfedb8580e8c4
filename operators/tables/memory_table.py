"""Rows of this program as a Flink table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from bridge.codec.ipc import write_batch
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators.tables.frame_columns import columns_of_frame
from operators.tables.memory_cells import record_batches

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment, Table


def memory_table(
    table_env: StreamTableEnvironment, schema: Schema, data: Sequence[Sequence[object]] | pd.DataFrame, where: str
) -> Table:
    """Send rows, or a DataFrame, to the JVM as Arrow; PyFlink's own conversions lose digits and shift instants."""
    from bridge.flink.arrow_operators import CHUNK_BYTES, logical_types, table_of_own

    if isinstance(data, pd.DataFrame):
        columns = columns_of_frame(where, schema, data)
    else:
        _check_widths(where, schema, data)
        cells_of = zip(*data) if data else ([] for _ in schema)
        columns = [[None if cell is pd.NA or cell is pd.NaT else cell for cell in cells] for cells in cells_of]
    batches = record_batches(where, schema, columns, len(data), CHUNK_BYTES)
    return table_of_own(table_env, map(write_batch, batches), logical_types(schema))


def _check_widths(where: str, schema: Schema, rows: Sequence[Sequence[object]]) -> None:
    width = len(schema.columns)
    for number, row in enumerate(rows):
        if not isinstance(row, (list, tuple)):
            raise ConfigurationError(f"{where}: row {number}: expected a tuple or a list, got {row!r}")
        if len(row) != width:
            raise ConfigurationError(f"{where}: row {number}: expected {width} cells, got {len(row)}: {row}")
