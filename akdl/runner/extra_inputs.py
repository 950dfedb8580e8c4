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
from typing import IO, Any, Iterable, Iterator

import numpy as np

from akdl.features import Defaults, batches
from akdl.rows.example_rows import ExampleRows
from akdl.rows.examples import ExampleEncoder, records
from akdl.wire import Example, Rows, TableColumns
from akdl.wire.column_type import Kind, type_of

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
        with open(self.path, "rb") as file:
            for cells in _rows(file, self.columns):
                yield {column.name: cell for column, cell in zip(self.columns, cells)}

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
    kinds = [type_of(column).kind for column in columns]
    # The rows become Examples first, so that one function reads cells for the text and for
    # `ExtraInput.rows`.
    encoder = ExampleEncoder(columns, exact_doubles=True)
    with open(path, "w", encoding="utf-8") as file:
        for chunk in rows:
            for cells in _rows(io.BytesIO(encoder.frames(chunk)), columns):
                file.write(" ".join(map(_text, cells, kinds)) + "\n")


def text_path(work_dir: str, number: int) -> str:
    """Path of the text of input `number`, counted from 1."""
    return os.path.join(work_dir, f"bc_data_{number}")


def _rows(file: IO[bytes], columns: TableColumns) -> Iterator[list[Any]]:
    """Yield the cells of each record, in the order of the columns."""
    rows, kinds = ExampleRows(columns), [type_of(column).kind for column in columns]
    for number, record in enumerate(records(file)):
        yield list(map(_plain, rows.read(Example.FromString(record), number), kinds))


def _plain(cell: Any, kind: Kind) -> Any:
    """Return a cell of an Example as text, bool or list where its column has these."""
    if isinstance(cell, tuple):
        return [_plain(each, kind) for each in cell]
    if isinstance(cell, bytes) and kind is not Kind.BYTES:
        return cell.decode("utf-8")
    return bool(cell) if kind is Kind.BOOLEAN and cell is not None else cell


def _text(cell: Any, kind: Kind) -> str:
    """Return a cell as Alink writes it; lists are separated by commas."""
    if cell is None:
        return "null"
    if isinstance(cell, list):
        return ",".join(_text(each, kind) for each in cell)
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, bytes):
        # Bytes have no text of their own, and raw ones could hold spaces or line ends.
        return cell.hex()
    if kind is Kind.DATE:
        return str((_EPOCH + datetime.timedelta(days=cell)).date())
    if kind is Kind.TIME:
        return str((_EPOCH + datetime.timedelta(milliseconds=cell)).time())
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
        return str(_EPOCH + datetime.timedelta(microseconds=cell))
    # The shortest text with the same value, as Java writes it. Python would print a float32 with
    # the digits of a double.
    return str(np.float32(cell)) if kind is Kind.FLOAT else str(cell)
