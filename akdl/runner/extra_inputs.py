"""Inputs that every process of a group receives completely.

Examples are validation rows, a base model, or a dictionary.

Each input is a TFRecord file with its columns, and also a plain file in Alink's format: one line
per row, fields separated by one space, no escaping, and "null" for null. That format is ambiguous;
`rows` and `batches` return exact values.
"""

from __future__ import annotations

import datetime
import io
import os
import struct
from typing import Any, Iterable, Iterator, Sequence

import numpy as np

from akdl.features import STRING, Defaults, batches
from akdl.rows.examples import ExampleEncoder, records
from akdl.wire import Example, Rows, TableColumns
from akdl.wire.column_type import ColumnType, Kind, type_of

_EPOCH = datetime.datetime(1970, 1, 1)


class ExtraInput:
    """One extra input.

    Args:
        path: TFRecord file of tf.train.Example; can be read any number of times.
        columns: Names and Flink SQL types of its columns.
        exact_doubles: DOUBLE columns hold 8 bytes in a bytes feature instead of a float32.
    """

    def __init__(self, path: str, columns: TableColumns, exact_doubles: bool = False) -> None:
        self.path = path
        self.columns = list(columns)
        self._exact_doubles = exact_doubles

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each row as column name to bool, int, float, str, bytes, a list of these, or None.

        Dates and times are numbers, as in `akdl.features.feature_spec`; DECIMAL is text. Needs no
        TensorFlow.
        """
        types = [type_of(column) for column in self.columns]
        with open(self.path, "rb") as file:
            for record in records(file):
                yield _cells(record, self.columns, types, self._exact_doubles)

    def batches(self, batch_size: int, defaults: Defaults = None) -> Any:
        """Return a `tf.data.Dataset` of batches, see `akdl.features.batches`."""
        # This import is late, because some scripts do not use TensorFlow, or configure it first.
        import tensorflow as tf

        return batches(
            tf.data.TFRecordDataset(self.path),
            batch_size,
            self.columns,
            self._exact_doubles,
            defaults,
        )


def write_text(path: str, rows: Iterable[Rows], columns: TableColumns) -> None:
    """Write rows in Alink's plain text format, with exact doubles."""
    types = [type_of(column) for column in columns]
    # The rows become Examples first, so that one function reads cells for the text and for
    # `ExtraInput.rows`.
    encoder = ExampleEncoder(columns, exact_doubles=True)
    with open(path, "w", encoding="utf-8") as file:
        for chunk in rows:
            for record in records(io.BytesIO(encoder.frames(chunk))):
                cells = _cells(record, columns, types, exact_doubles=True)
                file.write(
                    " ".join(
                        _text(cell, column_type) for cell, column_type in zip(cells.values(), types)
                    )
                    + "\n"
                )


def text_path(work_dir: str, number: int) -> str:
    """Path of the text of input `number`, counted from 1."""
    return os.path.join(work_dir, f"bc_data_{number}")


def _cells(
    record: bytes, columns: TableColumns, types: Sequence[ColumnType], exact_doubles: bool
) -> dict[str, Any]:
    """Return the cells of an Example by column; a missing feature is null."""
    features = Example.FromString(record).features.feature
    return {
        column.name: _cell(features[column.name], column_type, exact_doubles)
        if column.name in features
        else None
        for column, column_type in zip(columns, types)
    }


def _cell(feature: Any, column_type: ColumnType, exact_doubles: bool) -> Any:
    """Return the value of a feature in Python.

    Exact doubles are 8 bytes each in one bytes value, because an Example has no doubles: a float32
    would round them.
    """
    if exact_doubles and column_type.kind is Kind.DOUBLE:
        # The bytes of all elements of an ARRAY are in one value, see `akdl.rows.examples`.
        (packed,) = feature.bytes_list.value
        values: list[Any] = list(struct.unpack(f"<{len(packed) // 8}d", packed))
    else:
        # One of the three lists has values at most, so joining them finds it.
        values = [
            value
            for each in (feature.bytes_list, feature.float_list, feature.int64_list)
            for value in each.value
        ]
    if (
        column_type.feature == STRING
        and column_type.kind is not Kind.BYTES
        and not (exact_doubles and column_type.kind is Kind.DOUBLE)
    ):
        values = [value.decode("utf-8") for value in values]
    if column_type.kind is Kind.BOOLEAN:
        values = [bool(value) for value in values]
    return values if column_type.is_array else values[0]


def _text(cell: Any, column_type: ColumnType) -> str:
    """Return a cell as Alink writes it; lists are separated by commas."""
    if cell is None:
        return "null"
    if isinstance(cell, list):
        return ",".join(_text(each, column_type) for each in cell)
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, bytes):
        # Bytes have no text of their own, and raw ones could hold spaces or line ends.
        return cell.hex()
    if column_type.kind is Kind.DATE:
        return str((_EPOCH + datetime.timedelta(days=cell)).date())
    if column_type.kind is Kind.TIME:
        return str((_EPOCH + datetime.timedelta(milliseconds=cell)).time())
    if column_type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
        return str(_EPOCH + datetime.timedelta(microseconds=cell))
    # The shortest text with the same value, as Java writes it. Python would print a float32 with
    # the digits of a double.
    return str(np.float32(cell)) if column_type.kind is Kind.FLOAT else str(cell)
