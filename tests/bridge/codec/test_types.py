"""The Arrow type of every SQL type."""

from __future__ import annotations

import pyarrow as pa
import pytest

from akdl.wire.column_type import Kind
from bridge.codec.types import FORMS, arrow_type
from bridge.schema import Schema

TYPES = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "CHAR(3)": pa.string(), "VARCHAR(3)": pa.string(), "STRING": pa.string(),
    "BINARY(3)": pa.binary(3), "VARBINARY(3)": pa.binary(), "BYTES": pa.binary(), "DECIMAL(10, 2)": pa.decimal128(10, 2),
    "DECIMAL(38, 38)": pa.decimal128(38, 38), "DATE": pa.date32(), "TIME": pa.time32("s"), "TIME(0)": pa.time32("s"),
    "TIME(1)": pa.time32("ms"), "TIME(3)": pa.time32("ms"), "TIMESTAMP(0)": pa.timestamp("s"),
    "TIMESTAMP(1)": pa.timestamp("ms"), "TIMESTAMP(3)": pa.timestamp("ms"), "TIMESTAMP(4)": pa.timestamp("us"),
    "TIMESTAMP(6)": pa.timestamp("us"), "TIMESTAMP_LTZ(0)": pa.timestamp("s"), "TIMESTAMP_LTZ(3)": pa.timestamp("ms"),
    "TIMESTAMP_LTZ(6)": pa.timestamp("us"), "INT NOT NULL": pa.int32(),
    "ARRAY<INT>": pa.list_(pa.field("element", pa.int32())),
    "ARRAY<INT NOT NULL>": pa.list_(pa.field("element", pa.int32(), nullable=False)),
    "ARRAY<BINARY(3)>": pa.list_(pa.field("element", pa.binary(3))),
}  # fmt: skip


@pytest.mark.parametrize("sql", TYPES)
def test_arrow_type_follows_the_sql_type(sql: str) -> None:
    (column,) = Schema.parse(f"x {sql}")
    assert arrow_type(column.type).equals(TYPES[sql], check_metadata=True)


def test_every_kind_has_its_forms() -> None:
    assert set(FORMS) == set(Kind)
