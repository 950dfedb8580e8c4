"""Tables of any library that speaks Arrow: their types, their cells, and what is refused."""

from __future__ import annotations

import datetime
import decimal
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bridge.codec.ipc import arrow_schema
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators import BatchOperator, MemSourceBatchOp
from operators.flink.arrow_columns import schema_of_types, tables_of
from operators.flink.memory_table import _batches

D = decimal.Decimal
DAY, CLOCK = datetime.date(1960, 2, 29), datetime.time(23, 59, 59, 999_000)
TIME = datetime.datetime(1960, 2, 29, 23, 59, 59, 999_999)
UTC = datetime.timezone.utc


def rows_of(
    table: pa.Table, schema: str | None = None, size: int = 1 << 20
) -> list[dict[str, Any]]:
    """Cells of a table as Flink gets them."""
    found = (
        schema_of_types("op", list(zip(table.schema.names, table.schema.types)))
        if schema is None
        else Schema.parse(schema)
    )
    batches = list(_batches("op", found, pa.RecordBatchReader.from_stream(table), size))
    assert {batch.schema for batch in batches} == {arrow_schema(found)}
    return pa.Table.from_batches(batches).to_pylist()  # type: ignore[no-any-return]


TYPES: dict[str, tuple[pa.DataType, list[Any], str]] = {
    "bool": (pa.bool_(), [True, False], "BOOLEAN"),
    "u8": (pa.uint8(), [0, 255], "SMALLINT"),
    "u16": (pa.uint16(), [0, 65_535], "INT"),
    "u32": (pa.uint32(), [0, 2**32 - 1], "BIGINT"),
    "u64": (pa.uint64(), [D(0), D(2**64 - 1)], "DECIMAL(20, 0)"),
    "i8": (pa.int8(), [-128, 127], "TINYINT"),
    "i16": (pa.int16(), [-32_768, 1], "SMALLINT"),
    "i32": (pa.int32(), [-(2**31), 1], "INT"),
    "i64": (pa.int64(), [2**53 + 1, -(2**63)], "BIGINT"),
    "f16": (pa.float16(), [np.float16(0.5), np.float16(-2)], "FLOAT"),
    "f32": (pa.float32(), [0.5, float("inf")], "FLOAT"),
    "f64": (pa.float64(), [0.1, 1e300], "DOUBLE"),
    "s": (pa.string(), ["żółć", ""], "STRING"),
    "ls": (pa.large_string(), ["żółć", "x" * 20], "STRING"),
    "vs": (pa.string_view(), ["longer than twelve bytes", "żółć"], "STRING"),
    "b": (pa.binary(), [b"\0", b""], "BYTES"),
    "lb": (pa.large_binary(), [b"\xff", b"x" * 20], "BYTES"),
    "vb": (pa.binary_view(), [b"\xff", b"longer than twelve bytes"], "BYTES"),
    "fb": (pa.binary(2), [b"ab", b"cd"], "BINARY(2)"),
    "dec": (pa.decimal128(38, 10), [D("1.5000000000"), D("-0.1000000000")], "DECIMAL(38, 10)"),
    "dec256": (pa.decimal256(20, 2), [D("123456789012345678.90"), D("0.00")], "DECIMAL(20, 2)"),
    "tens": (pa.decimal128(3, -2), [D("12300"), D("100")], "DECIMAL(5, 0)"),
    "d32": (pa.date32(), [DAY, datetime.date.max], "DATE"),
    "d64": (pa.date64(), [DAY, datetime.date(1, 1, 1)], "DATE"),
    "t32": (pa.time32("ms"), [CLOCK, datetime.time()], "TIME(3)"),
    "t64": (pa.time64("ns"), [CLOCK, datetime.time()], "TIME(3)"),
    "ts": (pa.timestamp("s"), [TIME.replace(microsecond=0)] * 2, "TIMESTAMP(0)"),
    "us": (pa.timestamp("us"), [TIME, datetime.datetime.min], "TIMESTAMP(6)"),
    "ns": (pa.timestamp("ns"), [TIME, TIME], "TIMESTAMP(6)"),
    "tz": (
        pa.timestamp("ms", "Asia/Tokyo"),
        [datetime.datetime(2024, 1, 1, tzinfo=UTC)] * 2,
        "TIMESTAMP_LTZ(3)",
    ),
    "cat": (pa.dictionary(pa.int8(), pa.string()), ["a", "b"], "STRING"),
    "list": (pa.list_(pa.int64()), [[2**53 + 1, None], []], "ARRAY<BIGINT>"),
    "ll": (pa.large_list(pa.large_string()), [["a", None], []], "ARRAY<STRING>"),
    "fl": (pa.list_(pa.float32(), 2), [[0.5, None], [1.0, 2.0]], "ARRAY<FLOAT>"),
    "lv": (
        pa.list_(pa.string_view()),
        [["longer than twelve bytes", None], ["a"]],
        "ARRAY<STRING>",
    ),
    "lc": (pa.list_(pa.dictionary(pa.int8(), pa.string())), [["a"], ["b", "a"]], "ARRAY<STRING>"),
}


def test_all_types_are_exact_with_nulls_and_in_slices() -> None:
    arrays = {
        name: pa.array([None, cells[0], None, cells[1]], kind)
        for name, (kind, cells, _) in TYPES.items()
    }
    table = pa.table(arrays)
    schema = schema_of_types("op", list(zip(table.schema.names, table.schema.types)))
    assert {column.name: column.type.sql for column in schema} == {
        name: sql for name, (_, _, sql) in TYPES.items()
    }
    expected = [{name: cells[place] for name, (_, cells, _) in TYPES.items()} for place in (0, 1)]
    # Flink's instants are in UTC
    expected = [{**row, "tz": datetime.datetime(2024, 1, 1)} for row in expected]
    nothing = dict.fromkeys(TYPES)
    assert rows_of(table) == [nothing, expected[0], nothing, expected[1]]
    assert rows_of(table.slice(1, 2)) == [expected[0], nothing]
    assert rows_of(pa.concat_tables([table.slice(3), table.slice(1, 1)])) == [
        expected[1],
        expected[0],
    ]
    assert rows_of(table.slice(0, 0)) == [] and rows_of(table.slice(0, 1)) == [nothing]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            pa.nulls(2),
            "op: column 'c' has no rows or only null cells, and so no type: set schemaStr",
        ),
        (
            pa.array([{"x": 1}]),
            "op: column 'c' has cells of the type struct<x: int64>: make columns of its values",
        ),
        (
            pa.array([[[1]]]),
            "cells of the type list<item: list<item: int64>>: make columns of its values, or one list per row",
        ),
        (
            pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())),
            "cells of the type map<.*: make columns",
        ),
        (
            pa.array([1], pa.duration("s")),
            "cells of the type duration\\[s\\]: convert it to a type of SQL, or set schemaStr",
        ),
        (
            pa.array([[TIME]], pa.list_(pa.timestamp("us", "UTC"))),
            "cells of the type list.*: convert it",
        ),
        (
            pa.array([D(1)], pa.decimal256(40, 2)),
            "cells of the type decimal256\\(40, 2\\): convert it",
        ),
    ],
)
@pytest.mark.fault("data", "A type of Arrow that SQL lacks is refused with its column")
def test_types_that_sql_lacks_are_refused(cells: pa.Array, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        schema_of_types("op", [("c", cells.type)])


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_refused_with_its_operator(name: str) -> None:
    with pytest.raises(
        ConfigurationError,
        match=f"^op: a column has an empty name; the columns are 'a', '{name}': rename it",
    ):
        schema_of_types("op", [("a", pa.int8()), (name, pa.int8())])


@pytest.mark.parametrize(
    ("cells", "sql", "message"),
    [
        (pa.array([1, None, 2**63], pa.uint64()), "BIGINT", "row 2: expected a whole number within the range of BIGINT, got 9223372036854775808"),
        (pa.array([None, 1], pa.timestamp("ns")), None, "row 1: expected a datetime without .* at most 6 fractional digits, got Timestamp"),
        (pa.array([1], pa.time64("us")), None, "row 0: expected a datetime.time .* at most 3 fractional digits"),
        (pa.array([2**62], pa.timestamp("s")), None, "row 0: expected a datetime .*got 4611686018427387904 as timestamp"),
        (pa.array([D("1.55")]), "DECIMAL(5, 1)", "row 0: expected a decimal.Decimal .*got Decimal\\('1.55'\\)"),
        (pa.array(["1"]), "INT", "row 0: expected a whole number within the range of INT, got '1'"),
        (pa.array([1]), "STRING", "row 0: expected a string, got 1"),
        (pa.array([1]), "TIMESTAMP(3)", "expected a datetime"),
        (pa.array([True]), "INT", "expected a whole number"),
        (pa.array([TIME], pa.timestamp("us", "UTC")), "TIMESTAMP(6)", "a datetime without a time zone \\(TIMESTAMP_LTZ accepts"),
        (pa.array([b"a", b"\xff"]), "STRING", "row 1: expected a string"),
        (pa.array([None, "abc", "x"]).dictionary_encode(), "VARCHAR(2)", "row 1: expected a string of at most 2 characters, got 'abc'"),
        (pa.array([[1], None, [2, 300]]), "ARRAY<TINYINT>", "row 2: expected an array with a whole number .*got 300"),
        (pa.array([None, 1]), "ARRAY<INT>", "row 1: expected a list or an array, got 1"),
        (pa.array([1, None]), "INT NOT NULL", "row 1: expected a value, since it is NOT NULL, got null"),
    ],
)  # fmt: skip
@pytest.mark.fault("data", "A cell of Arrow that its type does not hold exactly is refused")
def test_cells_of_arrow_that_a_type_would_change_are_refused(
    cells: pa.Array, sql: str | None, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"op: column 'c' does not fit .*{message}"):
        rows_of(pa.table({"c": cells}), None if sql is None else f"c {sql}")


def test_rows_of_errors_are_those_of_the_whole_stream() -> None:
    cells = pa.chunked_array([list(range(100_000)), [5, 300, 7]])
    with pytest.raises(
        ConfigurationError,
        match="row 255: expected a whole number within the range of TINYINT, got 128",
    ):
        rows_of(
            pa.table({"c": pa.concat_arrays([pa.array([1] * 127), cells.combine_chunks()])}),
            "c TINYINT",
        )
    with pytest.raises(
        ConfigurationError, match="row 100001: expected a whole number within .*, got 300000"
    ):
        rows_of(pa.table({"c": pa.chunked_array([[1] * 100_000, [5, 300_000]])}), "c SMALLINT")


def test_columns_are_matched_by_name() -> None:
    table = pa.table({"b": ["x"], "a": [1.0]})
    assert rows_of(table, "a INT, b STRING") == [{"a": 1, "b": "x"}]
    with pytest.raises(
        ConfigurationError,
        match="op: columns are matched by name; the data lacks c and has b, a, which",
    ):
        rows_of(table, "c INT")
    with pytest.raises(
        ConfigurationError, match="fromArrow: there are several columns named a: rename them"
    ):
        BatchOperator.fromArrow(pa.table([[1], [2]], ["a", "a"]))
    with pytest.raises(ConfigurationError, match="fromArrow: the table has no columns"):
        BatchOperator.fromArrow(pa.table({}))
    with pytest.raises(
        ConfigurationError, match="MemSourceBatchOp: the .*Array is not a table in Arrow: "
    ):
        MemSourceBatchOp(pa.chunked_array([[1]]))


def test_small_batches_are_joined_and_large_ones_cut() -> None:
    reader = pa.table({"n": range(1000)}).to_reader(7)
    assert [table.num_rows for table in tables_of(reader, ["n"], 300)] == [301, 301, 301, 97]
    assert [
        table.num_rows for table in tables_of(pa.table({"n": range(100)}).to_reader(1), ["n"], 300)
    ] == [64, 36]
    assert [
        table.num_rows for table in tables_of(pa.table({"n": range(9)}).to_reader(9), ["n"], 3)
    ] == [9, 0]
    batches = list(
        _batches("op", Schema.parse("n BIGINT"), pa.table({"n": range(1000)}).to_reader(), 800)
    )
    assert {batch.num_rows for batch in batches} == {100}


def test_random_views_are_the_same_strings() -> None:
    draw = random.Random(7)
    for _ in range(50):
        cells = [
            None if draw.random() < 0.2 else "ż" * draw.randrange(20)
            for _ in range(draw.randrange(1, 40))
        ]
        start = draw.randrange(len(cells))
        assert rows_of(pa.table({"c": pa.array(cells, pa.string_view()).slice(start)})) == [
            {"c": c} for c in cells[start:]
        ]


def random_table(draw: random.Random, rows: int) -> pa.Table:
    """Cells of all types, some of them null, in chunks."""
    share = draw.random()
    cuts = sorted(draw.randrange(rows + 1) for _ in range(3))

    def cells(kind: pa.DataType, known: list[Any]) -> pa.ChunkedArray:
        drawn = [None if draw.random() < share else draw.choice(known) for _ in range(rows)]
        return pa.chunked_array(
            [pa.array(drawn[a:b], kind) for a, b in zip([0, *cuts], [*cuts, rows])], kind
        )

    return pa.table({name: cells(kind, known) for name, (kind, known, _) in TYPES.items()})


def test_random_tables_are_exact() -> None:
    draw = random.Random(5)
    for _ in range(10):
        table = random_table(draw, draw.randrange(100)).drop_columns(["tz"])
        assert rows_of(table, size=draw.choice([1000, 10_000])) == table.to_pylist()
