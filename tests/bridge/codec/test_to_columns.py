"""Arrow arrays to the message of columns; what comes out is read as the TensorFlow process reads
it.
"""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from akdl.wire import BOOL, BYTES, FLOAT32, FLOAT64, INT8, INT16, INT32, INT64, Column, Rows
from akdl.wire.cells import read_cells
from bridge.codec.ipc import arrow_schema
from bridge.codec.to_columns import to_columns
from bridge.exceptions import RowError
from bridge.schema import Schema


def message_of(sql: str, cells: Any) -> Column:
    """Return the message of a column; cells as `pa.array` takes them, times as numbers in the unit
    of the Arrow type.
    """
    schema = Schema.parse(f"x {sql}")
    (field,) = arrow_schema(schema)
    array = cells if isinstance(cells, pa.Array) else pa.array(cells, field.type)
    message = Rows.FromString(
        to_columns(pa.record_batch([array], schema=arrow_schema(schema)), schema)
    )
    assert message.rows == len(array)
    (column,) = message.columns
    assert column.name == "x"
    return column


def found(column: Column, rows: int) -> list[Any]:
    """Return the cells as lists, all of them in lists, bytes as such."""
    cells = read_cells(column, rows)
    values = cells.values.tolist()
    if cells.value_offsets is not None:
        data, ends = cells.values.tobytes(), cells.value_offsets.tolist()
        values = [data[start:end] for start, end in zip(ends, ends[1:])]
    bounds = list(range(rows + 1)) if cells.cell_offsets is None else cells.cell_offsets.tolist()
    valid = [True] * rows if cells.valid is None else cells.valid.tolist()
    return [
        values[start:end] if is_valid else None
        for is_valid, start, end in zip(valid, bounds, bounds[1:])
    ]


@pytest.mark.parametrize(
    ("sql", "cells", "value_type", "expected"),
    [
        ("BOOLEAN", [True, False, None], BOOL, [[True], [False], None]),
        ("TINYINT", [-128, 127], INT8, [[-128], [127]]),
        ("SMALLINT", [-(2**15), None], INT16, [[-(2**15)], None]),
        ("INT", [0, 2**31 - 1], INT32, [[0], [2**31 - 1]]),
        ("BIGINT", [2**53 + 1, -(2**63)], INT64, [[2**53 + 1], [-(2**63)]]),
        ("FLOAT", [0.5, -np.inf], FLOAT32, [[0.5], [-np.inf]]),
        ("DOUBLE", [0.1, None, 1e300], FLOAT64, [[0.1], None, [1e300]]),
        ("STRING", ["żółć", "", None], BYTES, [["żółć".encode()], [b""], None]),
        ("CHAR(3)", ["a  "], BYTES, [[b"a  "]]),
        ("BYTES", [b"\x00\xff", b"", None], BYTES, [[b"\x00\xff"], [b""], None]),
        ("BINARY(2)", [b"\x00\xff", None, b"ab"], BYTES, [[b"\x00\xff"], None, [b"ab"]]),
        (
            "DATE",
            pa.array([1, -719162, None], pa.int32()).cast(pa.date32()),
            INT32,
            [[1], [-719162], None],
        ),
        ("TIME(3)", pa.array([1005, None], pa.time32("ms")), INT32, [[1005], None]),
        ("TIME(0)", pa.array([86399, None], pa.time32("s")), INT32, [[86_399_000], None]),
        ("TIMESTAMP(0)", pa.array([-1, None], pa.timestamp("s")), INT64, [[-1_000_000], None]),
        ("TIMESTAMP(3)", pa.array([1, None], pa.timestamp("ms")), INT64, [[1000], None]),
        ("TIMESTAMP(6)", pa.array([1, -1], pa.timestamp("us")), INT64, [[1], [-1]]),
        (
            "TIMESTAMP_LTZ(3)",
            pa.array([-62_135_596_800_000], pa.timestamp("ms")),
            INT64,
            [[-62_135_596_800_000_000]],
        ),
        ("ARRAY<FLOAT>", [[0.5, 1.5], [], None], FLOAT32, [[0.5, 1.5], [], None]),
        ("ARRAY<BIGINT>", [[2**53 + 1, -1], [3]], INT64, [[2**53 + 1, -1], [3]]),
        ("ARRAY<BOOLEAN>", [[True, False], []], BOOL, [[True, False], []]),
        ("ARRAY<STRING>", [["a", ""], [], None], BYTES, [[b"a", b""], [], None]),
        ("ARRAY<BYTES>", [[b"", b"\xff"], None], BYTES, [[b"", b"\xff"], None]),
        ("ARRAY<BINARY(1)>", [[b"a", b"b"], None, []], BYTES, [[b"a", b"b"], None, []]),
        ("ARRAY<DECIMAL(5, 2)>", [[decimal.Decimal("1.50")], []], BYTES, [[b"1.50"], []]),
        (
            "ARRAY<DATE>",
            pa.array([[1], None], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
            INT32,
            [[1], None],
        ),
        (
            "ARRAY<TIMESTAMP(3)>",
            pa.array([[1, -1], []], pa.list_(pa.timestamp("ms"))),
            INT64,
            [[1000, -1000], []],
        ),
        ("INT", [None, None], INT32, [None, None]),
        ("STRING", [None, None], BYTES, [None, None]),
        ("ARRAY<STRING>", [None, None], BYTES, [None, None]),
        *(
            (sql, [], BYTES, [])
            for sql in ("STRING", "BINARY(2)", "DECIMAL(5, 2)", "DECIMAL(30, 2)", "ARRAY<STRING>")
        ),
    ],
)
def test_every_type_becomes_a_column_of_a_message(
    sql: str, cells: Any, value_type: Any, expected: list[list[Any] | None]
) -> None:
    column = message_of(sql, cells)
    assert column.type == value_type
    assert found(column, len(cells)) == expected


def test_nan_is_a_number() -> None:
    assert np.isnan(found(message_of("FLOAT", [np.nan]), 1)[0][0])


def test_no_bits_are_sent_when_no_cell_is_null() -> None:
    assert message_of("STRING", ["a", "b"]).valid == b""
    assert message_of("STRING", ["a", None, "b"]).valid == b"\x05"
    assert message_of("STRING", pa.array([None, "a"]).slice(1)).valid == b""


def test_values_at_nulls_are_not_sent() -> None:
    first_is_null = pa.py_buffer(b"\x02")
    offsets = pa.py_buffer(np.array([0, 2, 3], "<i4"))
    text = pa.Array.from_buffers(pa.string(), 2, [first_is_null, offsets, pa.py_buffer(b"abc")])
    assert found(message_of("STRING", text), 2) == [None, [b"c"]]
    assert message_of("STRING", text).values == b"c"
    lists = pa.Array.from_buffers(
        pa.list_(pa.int32()),
        2,
        [first_is_null, offsets],
        children=[pa.array([1, 2, 3], pa.int32())],
    )
    assert found(message_of("ARRAY<INT>", lists), 2) == [None, [3]]
    assert message_of("ARRAY<INT>", lists).values == np.array([3], "<i4").tobytes()


@pytest.mark.parametrize("start", [0, 1, 8, 13])
@pytest.mark.parametrize(
    ("sql", "cells"),
    [
        ("BOOLEAN", [True, None, False] * 10),
        ("INT", [1, None, 3] * 10),
        ("STRING", ["a", None, "bc"] * 10),
        ("BINARY(2)", [b"ab", b"cd", b"ef"] * 10),
        ("BINARY(2)", [b"ab", None, b"ef"] * 10),
        ("DECIMAL(5, 2)", [decimal.Decimal("1.25"), None, decimal.Decimal("-0.01")] * 10),
        ("DECIMAL(25, 2)", [decimal.Decimal("1.25"), None, decimal.Decimal("-0.01")] * 10),
        ("ARRAY<BOOLEAN>", [[True, False], None, [], [True]] * 8),
        ("ARRAY<STRING>", [["a", ""], None, [], ["bcd"]] * 8),
    ],
)
def test_slices_become_the_columns_of_their_rows(sql: str, cells: list[Any], start: int) -> None:
    (field,) = arrow_schema(Schema.parse(f"x {sql}"))
    array = pa.array(cells, field.type)
    part = array.slice(start, 15)
    assert message_of(sql, part) == message_of(sql, pa.array(cells[start : start + 15], field.type))


def test_a_null_element_is_refused_with_column_and_row() -> None:
    words = (
        r"^the input: column 'x' \(ARRAY<INT>\): row 1 of a batch: the array holds a null, which a list of a tf.train.Example cannot: "
        "remove or replace the nulls in SQL, for example with ARRAY_REMOVE"
    )
    cells = pa.array([[5], [1], [2, None]], pa.list_(pa.field("element", pa.int32())))
    with pytest.raises(RowError, match=words):
        message_of("ARRAY<INT>", cells.slice(1))


def test_a_time_that_microseconds_cannot_hold_names_its_column_and_row() -> None:
    with pytest.raises(
        RowError, match=r"column 'x' \(TIMESTAMP_LTZ\(3\)\): row 2 of a batch: .*out of bounds"
    ):
        message_of("TIMESTAMP_LTZ(3)", pa.array([0, None, 2**60], pa.timestamp("ms")))


def test_columns_of_any_name_and_number_become_a_message() -> None:
    schema = Schema.parse(", ".join(f"`größe {i}` INT NOT NULL" for i in range(300)))
    batch = pa.record_batch(
        [pa.array([i], pa.int32()) for i in range(300)], schema=arrow_schema(schema)
    )
    message = Rows.FromString(to_columns(batch, schema))
    assert [column.name for column in message.columns] == schema.names
    assert [found(column, 1) for column in message.columns] == [[[i]] for i in range(300)]
