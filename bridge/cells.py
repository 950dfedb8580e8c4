"""Cells as they come from pandas, as Arrow arrays and numbers. Pure."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bridge.exceptions import RowError
from bridge.schema import Kind


def binary_array(series: pd.Series[Any], kind: Kind) -> pa.Array:
    """Return the bytes of each cell of a column of text or bytes; null where the cell is."""
    cells = pa.array(series, pa.binary() if kind is Kind.BYTES else pa.string())
    if isinstance(cells, pa.ChunkedArray):  # more than one array can hold
        check_size(cells.nbytes)
    return cells.cast(pa.binary())


def list_array(series: pd.Series[Any], kind: Kind) -> pa.Array:
    """Return a column of arrays of `kind`; null where the cell is."""
    element = {
        Kind.BOOLEAN: pa.bool_(), Kind.FLOAT: pa.float32(), Kind.DOUBLE: pa.float64(), Kind.BYTES: pa.binary(),
        Kind.STRING: pa.string(), Kind.DECIMAL: pa.string(), Kind.DATE: pa.date32(), Kind.TIME: pa.time64("us"),
        Kind.TIMESTAMP: pa.timestamp("us"),
    }.get(kind, pa.int64())  # fmt: skip
    return pa.array(series, pa.list_(element), from_pandas=False)


def temporal(series: pd.Series[Any], kind: Kind) -> NDArray[np.int64]:
    """Return days, milliseconds of the day, or microseconds since 1970; anything where the cell is null."""
    if kind is Kind.DATE:
        days = pa.array(series, pa.date32(), from_pandas=True).cast(pa.int32())
        return _filled(days)
    if kind is Kind.TIME:
        return _filled(pa.array(series, pa.time64("us"), from_pandas=True).cast(pa.int64())) // 1000
    if kind is Kind.TIMESTAMP_LTZ:
        text = pc.utf8_slice_codeunits(pa.array(series, pa.string()), 1, -1)  # without the quotes of JSON
        return _filled(text.cast(pa.timestamp("us", "UTC")).cast(pa.int64()))
    return series.to_numpy().astype("datetime64[us]").astype(np.int64)


def check_size(number_of_bytes: int) -> None:
    """Refuse more than one Arrow array can hold: its offsets have 32 bits and would wrap around without a word."""
    if number_of_bytes >= 2**31:
        raise RowError(
            f"a batch holds {number_of_bytes} bytes, more than the 2 GiB of one Arrow array: "
            "set python.fn-execution.arrow.batch.size to a smaller number of rows"
        )


def _filled(values: pa.Array) -> NDArray[np.int64]:
    filled: NDArray[np.int64] = pc.fill_null(values, 0).to_numpy().astype(np.int64)
    return filled
