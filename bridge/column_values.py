"""Batches of table columns as messages of columns, for a process that serves a model. Pure.

The mapping is that of `bridge.encoder`, except that DOUBLE keeps its 8 bytes and nothing is framed: booleans, integers, dates
and times are int64, FLOAT is float32, DOUBLE float64, text in UTF-8, DECIMAL as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from akdl.wire import BYTES, FLOAT32, FLOAT64, INT64, ColumnValues
from bridge.arguments import PRIMITIVE, Argument, Arguments, Masks
from bridge.byte_columns import data_of, lengths_of
from bridge.cells import binary_array, list_array, temporal
from bridge.exceptions import RowError
from bridge.schema import Column, Kind, Schema

_TYPES = {Kind.FLOAT: (FLOAT32, "<f4"), Kind.DOUBLE: (FLOAT64, "<f8")}
_TEXT = {Kind.STRING, Kind.BYTES, Kind.DECIMAL}


class ColumnEncoder:
    """Encodes batches.

    Args:
        schema: The columns, in order.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._arguments = Arguments(schema)
        self.sql_arguments = self._arguments.sql
        """SQL expressions over the table's columns, the arguments that `encode` takes, see `bridge.arguments`."""

    def encode(self, series: Sequence[Any]) -> tuple[int, list[ColumnValues]]:
        """Return the number of rows and a message per column.

        Raises:
            RowError: Cells that cannot be sent.
        """
        size, columns, masks = self._arguments.read(series)
        encoded = [_encode(*each, masks) for each in zip(self._schema, self._arguments.columns, columns)]
        return size, encoded


def _encode(column: Column, argument: Argument, cells: pd.Series[Any], masks: Masks) -> ColumnValues:
    try:
        return (_array if column.type.is_array else _scalar)(column, argument, cells, masks)
    except (ValueError, TypeError, OverflowError) as error:  # pyarrow's errors are ValueErrors and TypeErrors
        raise RowError(f"column {column.name!r} ({column.type.sql}): {error}") from error


def _scalar(column: Column, argument: Argument, cells: pd.Series[Any], masks: Masks) -> ColumnValues:
    message, kind = ColumnValues(name=column.name), column.type.kind
    if kind in _TEXT:
        _put_bytes(message, binary_array(cells, kind))
        return message
    if kind in PRIMITIVE:
        values = cells.to_numpy()
        valid = np.ones(len(values), bool) if argument.null is None else ~argument.null.rows(masks)
    else:
        values, valid = temporal(cells, kind), cells.notna().to_numpy()
    _put_valid(message, valid)
    _put_numbers(message, values if valid.all() else values[valid], kind)
    return message


def _array(column: Column, argument: Argument, cells: pd.Series[Any], masks: Masks) -> ColumnValues:
    message, kind = ColumnValues(name=column.name), column.type.kind
    if argument.null_element is not None and argument.null_element.rows(masks).any():
        row = int(np.flatnonzero(argument.null_element.rows(masks))[0])
        raise ValueError(f"the array in row {row} of a batch holds a null")
    lists = list_array(cells, kind)
    valid = np.asarray(lists.is_valid())
    _put_valid(message, valid)
    message.cell_lengths = np.diff(lists.offsets.to_numpy())[valid].astype("<u4").tobytes()
    elements = lists.flatten()
    if kind in _TEXT:
        _put_bytes(message, binary_array(elements.to_pandas(), kind))
    elif kind in PRIMITIVE:
        _put_numbers(message, elements.to_numpy(zero_copy_only=False), kind)
    else:
        _put_numbers(message, temporal(elements.to_pandas(date_as_object=True), kind), kind)
    return message


def _put_bytes(message: ColumnValues, values: Any) -> None:
    valid = np.asarray(values.is_valid())
    _put_valid(message, valid)
    message.type = BYTES
    message.values = data_of(values).tobytes()
    message.value_lengths = lengths_of(values)[valid].astype("<u4").tobytes()


def _put_numbers(message: ColumnValues, values: NDArray[Any], kind: Kind) -> None:
    message.type, dtype = _TYPES.get(kind, (INT64, "<i8"))
    message.values = np.ascontiguousarray(values, dtype).tobytes()


def _put_valid(message: ColumnValues, valid: NDArray[np.bool_]) -> None:
    if not valid.all():
        message.valid = valid.astype("u1").tobytes()
