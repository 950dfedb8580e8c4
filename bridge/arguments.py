"""The columns of a table as arguments of a vectorized function, without what PyFlink would do to them. Pure.

PyFlink hands a column with nulls to pandas as floats, which rounds large integers and makes null and NaN the same. So such
cells get a value in the JVM, and what was null travels as bits of extra BIGINT arguments. Columns that the planner knows to
be constant would arrive as single values, or fail; `RAND_INTEGER(1)`, which is 0 in every row, keeps them from being constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bridge.schema import Column, Kind, Schema, quoted

_INTEGERS = {Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT}
PRIMITIVE = {Kind.BOOLEAN, Kind.FLOAT, Kind.DOUBLE, *_INTEGERS}
TEMPORAL = {Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ}
_MASK_BITS = 62  # of a BIGINT, without the sign

Masks = Sequence[NDArray[np.int64]]


class Arguments:
    """All columns of a table.

    Args:
        schema: The columns, in order.
    """

    def __init__(self, schema: Schema) -> None:
        self.columns = [Argument(column) for column in schema]
        flags = [flag for argument in self.columns for flag in (argument.null, argument.null_element) if flag is not None]
        for bit, flag in enumerate(flags):
            flag.mask, flag.bit = divmod(bit, _MASK_BITS)
        masks = [
            " + ".join(f"CASE WHEN {flag.condition} THEN {1 << flag.bit} ELSE 0 END" for flag in flags[i : i + _MASK_BITS])
            for i in range(0, len(flags), _MASK_BITS)
        ] or ["0"]
        # A call with only constant arguments does not even run.
        masks[0] += " + RAND_INTEGER(1)"
        self.sql = (
            *(argument.sql for argument in self.columns),
            *(f"CAST({mask} AS BIGINT)" for mask in masks),
        )
        """SQL expressions over the table's columns, the arguments of the function."""

    def read(self, series: Sequence[Any]) -> tuple[int, list[pd.Series[Any]], Masks]:
        """Return the number of rows, the columns, and the masks that `Flag.rows` reads.

        Args:
            series: What `sql` describes: columns of one length, or the one value of a column that is constant.
        """
        size = len(series[len(self.columns)])
        masks = [np.broadcast_to(mask, size) for mask in series[len(self.columns) :]]
        columns = [
            cells if isinstance(cells, pd.Series) else pd.Series([cells] * size, dtype=argument.constant_dtype)
            for argument, cells in zip(self.columns, series)
        ]
        return size, columns, masks


@dataclass
class Flag:
    """A condition of a row that travels as a bit of a mask argument."""

    condition: str
    mask: int = 0
    bit: int = 0

    def rows(self, masks: Masks) -> NDArray[np.bool_]:
        """Return the rows for which it holds, as a boolean per row."""
        bits: NDArray[np.bool_] = (masks[self.mask] & (1 << self.bit)) != 0
        return bits


class Argument:
    """One column.

    Attributes:
        sql: The argument.
        null: Which cells are null, where pandas would not show it.
        null_element: Which cells are arrays with a null in them, where the type allows it.
        constant_dtype: The dtype for a column that came as one value.
    """

    def __init__(self, column: Column) -> None:
        self.null: Flag | None = None
        self.null_element: Flag | None = None
        name, kind, is_array = quoted(column.name), column.type.kind, column.type.is_array
        self.sql = name
        if kind is Kind.DECIMAL:
            self.sql = f"CAST({name} AS {'ARRAY<STRING>' if is_array else 'STRING'})"
        elif kind in PRIMITIVE and not is_array and column.type.nullable:
            self.null = Flag(f"{name} IS NULL")
            default = "FALSE" if kind is Kind.BOOLEAN else f"CAST(0 AS {kind.value})"
            self.sql = f"COALESCE({name}, {default})"
        elif kind is Kind.TIMESTAMP_LTZ:
            # PyFlink takes the UTC time for one of the session's zone, and fails where that zone skips or repeats an hour.
            # JSON is exact: the instant in UTC, to the microsecond, whatever the zone.
            self.sql = f"JSON_STRING({name})"
        elif kind in {Kind.BYTES, *TEMPORAL} and not is_array:
            # PyFlink fails at constants of these types, or cuts them to milliseconds, and the planner makes a constant of
            # every column that it can.
            self.sql = f"CASE WHEN RAND_INTEGER(1) = 0 THEN {name} END"
        if is_array and column.type.element_nullable:
            null = f"CAST(NULL AS {column.type.element_sql})"
            self.null_element = Flag(f"COALESCE(ARRAY_CONTAINS({name}, {null}), FALSE)")
        self.constant_dtype: Any = None if kind in PRIMITIVE and not is_array else object
