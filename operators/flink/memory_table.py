"""Rows of this program as a Flink table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Union

import pyarrow as pa

from bridge.codec.ipc import write_batch
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from bridge.settings import CHUNK_BYTES
from operators.flink.arrow_columns import check_names, columns_of_frame, tables_of
from operators.flink.memory_cells import ROWS_AT_ONCE, record_batches

if TYPE_CHECKING:
    import pandas as pd
    from pyflink.table import StreamTableEnvironment, Table

_Data = Union[Sequence[Sequence[object]], "pd.DataFrame", pa.RecordBatchReader]


def memory_table(
    table_env: StreamTableEnvironment, schema: Schema, data: _Data, where: str
) -> Table:
    """Send rows, a DataFrame or a stream to the JVM as Arrow; PyFlink's own conversions lose digits
    and shift instants.
    """
    from bridge.flink.arrow_operators import logical_types, table_of_own

    batches = _batches(where, schema, data, CHUNK_BYTES)
    return table_of_own(table_env, map(write_batch, batches), logical_types(schema))


def _batches(where: str, schema: Schema, data: _Data, size: int) -> Iterator[pa.RecordBatch]:
    import pandas as pd

    if isinstance(data, pa.RecordBatchReader):
        check_names(where, schema.names, data.schema.names)
        # `rows` counts the rows before a table, so that errors number rows from the beginning of
        # the stream.
        rows = 0
        for table in tables_of(data, schema.names, ROWS_AT_ONCE):
            # An empty rest after other rows needs no batch, but an empty stream does: Flink gets
            # its columns from it.
            if table.num_rows or not rows:
                yield from record_batches(where, schema, table.columns, table.num_rows, size, rows)
            rows += table.num_rows
        return
    if isinstance(data, pd.DataFrame):
        columns = columns_of_frame(where, schema, data)
    else:
        _check_widths(where, schema, data)
        # `zip` of no rows would give no columns.
        cells_of = zip(*data) if data else ([] for _ in schema)
        columns = [
            [None if cell is pd.NA or cell is pd.NaT else cell for cell in cells]
            for cells in cells_of
        ]
    yield from record_batches(where, schema, columns, len(data), size)


def _check_widths(where: str, schema: Schema, rows: Sequence[Sequence[object]]) -> None:
    width = len(schema.columns)
    for number, row in enumerate(rows):
        if not isinstance(row, (list, tuple)):
            raise ConfigurationError(
                f"{where}: row {number}: expected a tuple or a list, got {row!r}"
            )
        if len(row) != width:
            raise ConfigurationError(
                f"{where}: row {number}: expected {width} cells, got {len(row)}: {row}"
            )
