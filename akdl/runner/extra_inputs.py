"""Inputs that every process of a group gets whole: validation rows, a base model, a dictionary.

Each input is a TFRecord file with its columns, and also a plain file in Alink's format. That format has one line per row.
Fields are joined by one space, nothing is escaped, and a null is written as "null". So its values cannot be read back without
guessing; `rows` and `batches` return exact values.
"""

import datetime
import os
import struct
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence

from akdl.features import STRING, batches
from akdl.wire import Example, TableColumn
from akdl.wire.column_type import ColumnType, Kind, type_of

_EPOCH = datetime.datetime(1970, 1, 1)


class ExtraInput:
    """One extra input.

    Args:
        path: TFRecord file of tf.train.Example; can be read any number of times.
        columns: Names and Flink SQL types of its columns.
        exact_doubles: DOUBLE columns hold 8 bytes in a bytes feature instead of a float32.
    """

    def __init__(self, path: str, columns: Sequence[TableColumn], exact_doubles: bool = False) -> None:
        self.path = path
        self.columns = list(columns)
        self._exact_doubles = exact_doubles

    def rows(self) -> Iterator[Dict[str, Any]]:
        """Yield each row as column name to bool, int, float, str, bytes, a list of these, or None.

        Dates and times are numbers, as in `akdl.features.feature_spec`; DECIMAL is text. Needs no TensorFlow.
        """
        types = {column.name: type_of(column) for column in self.columns}
        for record in _records(self.path):
            features = Example.FromString(record).features.feature
            yield {
                name: _cell(features[name], column_type, self._exact_doubles) if name in features else None
                for name, column_type in types.items()
            }

    def batches(self, batch_size: int, defaults: Optional[Mapping[str, Any]] = None) -> Any:
        """Return a `tf.data.Dataset` of batches, see `akdl.features.batches`."""
        import tensorflow as tf  # late: a script may do without TensorFlow, and must set it up before it is imported

        return batches(tf.data.TFRecordDataset(self.path), batch_size, self.columns, self._exact_doubles, defaults)

    def write_text(self, path: str) -> None:
        """Write the rows in Alink's plain text form."""
        types = [type_of(column) for column in self.columns]
        with open(path, "w", encoding="utf-8") as file:
            for row in self.rows():
                file.write(" ".join(_text(cell, column_type) for cell, column_type in zip(row.values(), types)) + "\n")


def open_extra_inputs(
    paths: Sequence[str], columns: Sequence[Sequence[TableColumn]], exact_doubles: bool, work_dir: str
) -> List[ExtraInput]:
    """Return the extra inputs in their order, and write the text of input k to `bc_data_k` in the work folder."""
    found = [ExtraInput(path, each, exact_doubles) for path, each in zip(paths, columns)]
    for number, each in enumerate(found, 1):
        each.write_text(text_path(work_dir, number))
    return found


def text_path(work_dir: str, number: int) -> str:
    """Return where the text of input `number` is, counted from 1."""
    return os.path.join(work_dir, f"bc_data_{number}")


def _records(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while True:
            head = file.read(12)
            if not head:
                return
            (length,) = struct.unpack("<Q", head[:8])
            record = file.read(length)
            file.read(4)
            yield record


def _cell(feature: Any, column_type: ColumnType, exact_doubles: bool) -> Any:
    if exact_doubles and column_type.kind is Kind.DOUBLE:
        (packed,) = feature.bytes_list.value
        values: List[Any] = list(struct.unpack(f"<{len(packed) // 8}d", packed))
    else:
        values = [value for each in (feature.bytes_list, feature.float_list, feature.int64_list) for value in each.value]
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
    if cell is None:
        return "null"
    if isinstance(cell, list):
        return ",".join(_text(each, column_type) for each in cell)
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, bytes):
        return cell.hex()
    if column_type.kind is Kind.DATE:
        return str((_EPOCH + datetime.timedelta(days=cell)).date())
    if column_type.kind is Kind.TIME:
        return str((_EPOCH + datetime.timedelta(milliseconds=cell)).time())
    if column_type.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ):
        return str(_EPOCH + datetime.timedelta(microseconds=cell))
    return str(cell)
