"""What Flink's own ArrowSerializer reads and writes, of every type, without a job."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from akdl.wire import Rows
from akdl.wire.column_type import ColumnType, Kind
from bridge.codec.ipc import arrow_schema, read_batch, write_batch
from bridge.codec.to_arrow import ColumnDecoder
from bridge.codec.to_columns import to_columns
from bridge.schema import Column, Schema
from operators.flink.java import start_java
from tests.bridge.codec.random_cells import SCHEMA, as_message, random_cells
from tests.bridge.codec.test_random_cells import read, same

pytestmark = pytest.mark.flink


@pytest.fixture(scope="module")
def jvm() -> Any:
    start_java()
    from pyflink.java_gateway import get_gateway

    return get_gateway().jvm


@pytest.fixture(params=["UTC", "Asia/Kolkata", "America/St_Johns"])
def time_zone(jvm: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    zones = jvm.java.util.TimeZone
    usual = zones.getDefault()
    zones.setDefault(zones.getTimeZone(request.param))
    yield
    zones.setDefault(usual)


class FlinkRows:
    """Rows that Flink has read from a stream; it can write them to another."""

    def __init__(self, jvm: Any, schema: Schema, data: bytes) -> None:
        table = jvm.org.apache.flink.table
        fields = ", ".join(f"c{place} {column.type.sql}" for place, column in enumerate(schema))
        loader = jvm.Thread.currentThread().getContextClassLoader()
        row_type = table.types.logical.utils.LogicalTypeParser.parse(f"ROW<{fields}>", loader)
        self._written = jvm.java.io.ByteArrayOutputStream()
        self._serializer = table.runtime.arrow.serializers.ArrowSerializer(row_type, row_type)
        self._serializer.open(jvm.java.io.ByteArrayInputStream(data), self._written)
        self._size = self._serializer.load()
        types = [row_type.getTypeAt(place) for place in range(len(schema.columns))]
        self._getters = [
            table.data.RowData.createFieldGetter(each, place) for place, each in enumerate(types)
        ]
        self._types, self._element_getter = types, table.data.ArrayData.createElementGetter

    def __enter__(self) -> FlinkRows:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._serializer.close()

    def cells(self, place: int) -> list[Any]:
        """Return a column as Flink has it, without Java objects."""
        return [
            self._cell(place, self._getters[place].getFieldOrNull(self._serializer.read(row)))
            for row in range(self._size)
        ]

    def _cell(self, place: Any, value: Any) -> Any:
        if not hasattr(value, "getClass") or value.getClass().isArray():
            return value
        if not value.getClass().getSimpleName().endswith("ArrayData"):
            return value.toString()
        get = self._element_getter(self._types[place].getElementType()).getElementOrNull
        return [self._cell(place, get(value, position)) for position in range(value.size())]

    def write(self) -> bytes:
        """Return the stream that Flink writes of all rows."""
        for row in range(self._size):
            self._serializer.write(self._serializer.read(row))
        self._serializer.finishCurrentBatch()
        return bytes(self._written.toByteArray())


def array_of(column_type: ColumnType, numbers: list[Any]) -> Any:
    (field,) = arrow_schema(Schema((Column("x", column_type),)))
    return pa.array(numbers, pa.int32() if field.type.bit_width == 32 else pa.int64()).cast(
        field.type
    )


@pytest.mark.parametrize(
    ("sql", "cells", "expected"),
    [
        ("BOOLEAN", [True, None, False], [True, None, False]),
        ("TINYINT", [-128, None], [-128, None]),
        ("SMALLINT", [-(2**15), None], [-(2**15), None]),
        ("INT", [2**31 - 1, None], [2**31 - 1, None]),
        ("BIGINT", [2**53 + 1, -(2**63), None], [2**53 + 1, -(2**63), None]),
        ("FLOAT", [0.75, None], [0.75, None]),
        ("DOUBLE", [0.1, None], [0.1, None]),
        ("STRING", ["żółć ☃", "", None], ["żółć ☃", "", None]),
        ("CHAR(3)", ["a  ", None], ["a  ", None]),
        ("VARCHAR(3)", ["abc", None], ["abc", None]),
        ("BYTES", [b"\x00\xff", b"", None], [b"\x00\xff", b"", None]),
        ("VARBINARY(3)", [b"ab", None], [b"ab", None]),
        ("BINARY(3)", [b"a\x00\x00", None], [b"a\x00\x00", None]),
        ("ARRAY<INT>", [[1, 2], [], None], [[1, 2], [], None]),
        ("ARRAY<BOOLEAN>", [[True, False], None], [[True, False], None]),
        ("ARRAY<STRING>", [["a", ""], [], None], [["a", ""], [], None]),
        ("ARRAY<BYTES>", [[b"a", b""], [], None], [[b"a", b""], [], None]),
        ("ARRAY<BINARY(2)>", [[b"ab"], [], None], [[b"ab"], [], None]),
    ],
)
def test_flink_reads_and_writes(jvm: Any, sql: str, cells: list[Any], expected: list[Any]) -> None:
    schema = Schema.parse(f"x {sql}")
    batch = pa.record_batch(
        [pa.array(cells, arrow_schema(schema).types[0])], schema=arrow_schema(schema)
    )
    with FlinkRows(jvm, schema, write_batch(batch)) as rows:
        assert rows.cells(0) == expected
        assert read_batch(rows.write()).column(0).equals(batch.column(0))


@pytest.mark.parametrize(
    ("sql", "texts"),
    [
        ("DECIMAL(20, 3)", ["12345678901234567.891", "-0.001", "0.000", None]),
        ("DECIMAL(38, 38)", ["0.00000010000000000000000000000000000000", None]),
    ],
)
def test_decimals_are_the_text_that_flink_makes_of_them(
    jvm: Any, sql: str, texts: list[str | None]
) -> None:
    schema = Schema.parse(f"x {sql}")
    batch = pa.record_batch(
        [pa.array(texts).cast(arrow_schema(schema).types[0])], schema=arrow_schema(schema)
    )
    with FlinkRows(jvm, schema, write_batch(batch)) as rows:
        assert rows.cells(0) == texts
    (column,) = Rows.FromString(to_columns(batch, schema)).columns
    assert read(column, schema.columns[0].type, len(texts)) == texts


@pytest.mark.parametrize(
    ("sql", "numbers", "expected"),
    [
        ("DATE", [-719_162, 2_932_896, None], [-719_162, 2_932_896, None]),
        ("TIME(0)", [86_399, None], [86_399_000, None]),
        ("TIME(2)", [86_399_990, None], [86_399_990, None]),
        ("TIMESTAMP(0)", [-1, None], ["1969-12-31T23:59:59", None]),
        ("TIMESTAMP(1)", [-100, None], ["1969-12-31T23:59:59.900", None]),
        ("TIMESTAMP(3)", [-1, 1_709_208_000_123], ["1969-12-31T23:59:59.999", "2024-02-29T12:00:00.123"]),
        ("TIMESTAMP(6)", [1, -1000, 253_402_300_799_999_999], ["1970-01-01T00:00:00.000001", "1969-12-31T23:59:59.999", "9999-12-31T23:59:59.999999"]),
        # A TimestampData of this type is an instant, and its text the time in UTC: the zone has no
        # part in it.
        ("TIMESTAMP_LTZ(0)", [-1, None], ["1969-12-31T23:59:59", None]),
        ("TIMESTAMP_LTZ(3)", [0, 1_700_000_000_123], ["1970-01-01T00:00", "2023-11-14T22:13:20.123"]),
        ("TIMESTAMP_LTZ(6)", [1, None], ["1970-01-01T00:00:00.000001", None]),
    ],
)  # fmt: skip
@pytest.mark.fault("data")
def test_times_are_the_same_in_every_time_zone(
    jvm: Any, time_zone: None, sql: str, numbers: list[int | None], expected: list[Any]
) -> None:
    schema = Schema.parse(f"x {sql}")
    batch = pa.record_batch(
        [array_of(schema.columns[0].type, numbers)], schema=arrow_schema(schema)
    )
    with FlinkRows(jvm, schema, write_batch(batch)) as rows:
        assert rows.cells(0) == expected
        assert read_batch(rows.write()).column(0).equals(batch.column(0))


@pytest.mark.parametrize("sql", ["TIMESTAMP(6)", "TIMESTAMP_LTZ(6)"])
def test_flink_cannot_read_parts_of_a_millisecond_before_1970(jvm: Any, sql: str) -> None:
    """It divides as Java does, towards zero (ArrowTimestampColumnVector). When this fails, Flink
    has been fixed.
    """
    from py4j.protocol import Py4JJavaError

    schema = Schema.parse(f"x {sql}")
    batch = pa.record_batch([array_of(schema.columns[0].type, [-1])], schema=arrow_schema(schema))
    with (
        FlinkRows(jvm, schema, write_batch(batch)) as rows,
        pytest.raises(Py4JJavaError, match="IllegalArgumentException"),
    ):
        rows.cells(0)


def after_1970(column_type: Any, cell: Any) -> Any:
    if isinstance(cell, list):
        return [after_1970(column_type, each) for each in cell]
    return (
        cell
        if cell is None or column_type.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_LTZ)
        else abs(cell)
    )


def test_random_cells_of_every_type_go_through_flink(jvm: Any) -> None:
    rng, size = random.Random(7), 300
    columns = [
        [after_1970(column.type, cell) for cell in random_cells(rng, column.type, size)]
        for column in SCHEMA
    ]
    message = Rows(
        rows=size,
        columns=[
            as_message(rng, column.name, column.type, cells)
            for column, cells in zip(SCHEMA, columns)
        ],
    )
    decoder = ColumnDecoder(SCHEMA)
    batch = pa.record_batch(decoder.decode(message), schema=decoder.arrow_schema)
    with FlinkRows(jvm, SCHEMA, write_batch(batch)) as rows:
        batch = read_batch(rows.write())
    renamed = pa.schema(
        [field.with_name(f"c{place}") for place, field in enumerate(decoder.arrow_schema)]
    )
    assert batch.schema == renamed
    for column, cells, sent in zip(
        SCHEMA, columns, Rows.FromString(to_columns(batch, SCHEMA)).columns
    ):
        assert same(read(sent, column.type, size), cells), column
