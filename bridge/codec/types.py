"""The forms of each type: in Arrow, as Flink's JVM uses it, and in messages of scripts. Pure.

`akdl.wire.column_type` has the types themselves. A further type needs an entry here, and a
conversion in `to_arrow`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa

from akdl.wire import BOOL, BYTES, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64
from akdl.wire.column_type import ColumnType, Kind
from akdl.wire.exchange_pb2 import ValueType


class Forms(NamedTuple):
    """Forms of one type.

    Args:
        arrow: Makes the type of Arrow that Flink's ArrowSerializer uses.
        accepted: Types of values that a script may write for it.
        expected: Words for these values in errors, in terms of a tf.train.Example.
    """

    arrow: Callable[[ColumnType], pa.DataType]
    accepted: frozenset[ValueType]
    expected: str


def precision_of(column_type: ColumnType) -> int:
    return column_type.arguments[0] if column_type.arguments else 0


def arrow_type(column_type: ColumnType) -> pa.DataType:
    """Arrow type that Flink's ArrowSerializer uses for a column."""
    cell = FORMS[column_type.kind].arrow(column_type)
    return pa.list_(pa.field("element", cell, column_type.element_nullable)) if column_type.is_array else cell


def _always(arrow: pa.DataType) -> Callable[[ColumnType], pa.DataType]:
    return lambda column_type: arrow


def _binary(column_type: ColumnType) -> pa.DataType:
    return pa.binary(column_type.arguments[0]) if column_type.name == "BINARY" else pa.binary()


def _timestamp(column_type: ColumnType) -> pa.DataType:
    # Flink's ArrowUtils chooses the unit by the precision in the same way.
    precision = precision_of(column_type)
    return pa.timestamp("s" if precision == 0 else "ms" if precision <= 3 else "us")


_INTEGERS = frozenset({INT8, INT16, INT32, INT64})
_INTEGER_LIST, _BYTES_LIST = "an int64_list", "a bytes_list"
_TIME_LIST = "an int64_list (or a bytes_list of text)"
_BYTES = frozenset({BYTES})

FORMS: dict[Kind, Forms] = {
    Kind.BOOLEAN: Forms(_always(pa.bool_()), _INTEGERS | {BOOL}, _INTEGER_LIST),
    Kind.TINYINT: Forms(_always(pa.int8()), _INTEGERS, _INTEGER_LIST),
    Kind.SMALLINT: Forms(_always(pa.int16()), _INTEGERS, _INTEGER_LIST),
    Kind.INT: Forms(_always(pa.int32()), _INTEGERS, _INTEGER_LIST),
    Kind.BIGINT: Forms(_always(pa.int64()), _INTEGERS, _INTEGER_LIST),
    Kind.FLOAT: Forms(_always(pa.float32()), frozenset({FLOAT32, FLOAT64}), "a float_list"),
    Kind.DOUBLE: Forms(
        _always(pa.float64()), frozenset({FLOAT32, FLOAT64, BYTES}), "a float_list (or a bytes_list of 8 bytes)"
    ),
    Kind.STRING: Forms(_always(pa.string()), _BYTES, _BYTES_LIST),
    Kind.BYTES: Forms(_binary, _BYTES, _BYTES_LIST),
    Kind.DECIMAL: Forms(lambda column_type: pa.decimal128(*column_type.arguments), _BYTES, _BYTES_LIST),
    Kind.DATE: Forms(_always(pa.date32()), _INTEGERS | _BYTES, _TIME_LIST),
    Kind.TIME: Forms(lambda column_type: pa.time32("ms" if precision_of(column_type) else "s"), _INTEGERS | _BYTES, _TIME_LIST),
    Kind.TIMESTAMP: Forms(_timestamp, _INTEGERS | _BYTES, _TIME_LIST),
    Kind.TIMESTAMP_LTZ: Forms(_timestamp, _INTEGERS | _BYTES, _TIME_LIST),
}
