"""The forms of each type: in Arrow, as Flink's JVM uses it, and in messages of scripts. Pure.

`akdl.wire.column_type` has the types themselves. A further type needs an entry here, and a
conversion in `to_arrow`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import pyarrow as pa

from akdl.wire import BOOL, BYTES, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64
from akdl.wire.column_type import INTEGERS, POINTS_IN_TIME, ColumnType, Kind
from akdl.wire.exchange_pb2 import ValueType


class Forms(NamedTuple):
    """Forms of a type in the messages of scripts.

    Args:
        accepted: Types of values that a script may write for it.
        expected: Words for these values in errors, in terms of a tf.train.Example.
    """

    accepted: Collection[ValueType]
    expected: str


def precision_of(column_type: ColumnType) -> int:
    return column_type.arguments[0] if column_type.arguments else 0


def arrow_type(column_type: ColumnType) -> pa.DataType:
    """Arrow type that Flink's ArrowSerializer uses for a column."""
    cell = _ARROW[column_type.kind]
    cell = cell(column_type) if callable(cell) else cell
    if column_type.is_array:
        return pa.list_(pa.field("element", cell, column_type.element_nullable))
    return cell


def _timestamp(column_type: ColumnType) -> pa.DataType:
    # Flink's ArrowUtils chooses the unit by the precision in the same way.
    precision = precision_of(column_type)
    return pa.timestamp("s" if precision == 0 else "ms" if precision <= 3 else "us")


# This is the type of Arrow that Flink's ArrowSerializer uses for a type, or a function that makes
# it.
_ARROW: dict[Kind, pa.DataType] = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.TINYINT: pa.int8(),
    Kind.SMALLINT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.BYTES: lambda column_type: pa.binary(
        column_type.arguments[0] if column_type.name == "BINARY" else -1
    ),
    Kind.DECIMAL: lambda column_type: pa.decimal128(*column_type.arguments),
    Kind.DATE: pa.date32(),
    Kind.TIME: lambda column_type: pa.time32("ms" if precision_of(column_type) else "s"),
    Kind.TIMESTAMP: _timestamp,
    Kind.TIMESTAMP_LTZ: _timestamp,
}
# A script may write integers of any width, since an int64_list of an Example does not show the
# declared one. `to_arrow` checks the range.
_WHOLE = {INT8, INT16, INT32, INT64}
_WHOLE_LIST = "an int64_list"
FORMS: dict[Kind, Forms] = {
    Kind.BOOLEAN: Forms({*_WHOLE, BOOL}, _WHOLE_LIST),
    **dict.fromkeys(INTEGERS, Forms(_WHOLE, _WHOLE_LIST)),
    Kind.FLOAT: Forms({FLOAT32, FLOAT64}, "a float_list"),
    Kind.DOUBLE: Forms({FLOAT32, FLOAT64, BYTES}, "a float_list (or a bytes_list of 8 bytes)"),
    **dict.fromkeys((Kind.STRING, Kind.BYTES, Kind.DECIMAL), Forms({BYTES}, "a bytes_list")),
    **dict.fromkeys(
        POINTS_IN_TIME, Forms({*_WHOLE, BYTES}, f"{_WHOLE_LIST} (or a bytes_list of text)")
    ),
}
