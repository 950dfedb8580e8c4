"""Types of columns in files: what Flink stores exactly, and what is refused."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bridge.exceptions import RowError, SchemaError
from bridge.formats.file_columns import (
    cells_for_flink,
    check_type,
    column_of_field,
    declared_column,
)
from bridge.schema import Schema

INSTANT = datetime.datetime(2024, 5, 31, 18, tzinfo=datetime.timezone.utc)
NAIVE = datetime.datetime(2024, 5, 31, 18)
MIDNIGHT = datetime.datetime(2024, 5, 31)
TEXTS = pa.array(["b", None, "a", "b"])
EXACT: dict[str, tuple[pa.Array, str, list[Any]]] = {
    "unsigned 8": (pa.array([255], pa.uint8()), "SMALLINT", [255]),
    "unsigned 32": (pa.array([2**32 - 1], pa.uint32()), "BIGINT", [2**32 - 1]),
    "unsigned 64": (pa.array([2**64 - 1], pa.uint64()), "DECIMAL(20, 0)", [decimal.Decimal(2**64 - 1)]),
    "half": (pa.array(np.array([1.5], "f2")), "FLOAT", [1.5]),
    "large text": (pa.array(["a", None], pa.large_string()), "STRING", ["a", None]),
    "large bytes": (pa.array([b"\xff"], pa.large_binary()), "BYTES", [b"\xff"]),
    "fixed bytes": (pa.array([b"ab"], pa.binary(2)), "BINARY(2)", [b"ab"]),
    "dictionary": (TEXTS.dictionary_encode(), "STRING", ["b", None, "a", "b"]),
    "dictionary of numbers": (pa.array([7, 7, None], pa.uint16()).dictionary_encode(), "INT", [7, 7, None]),
    "date64": (pa.array([datetime.date(1969, 12, 31)], pa.date64()), "DATE", [datetime.date(1969, 12, 31)]),
    "time of ns": (pa.array([1_500_000_000], pa.time64("ns")), "TIME(3)", [datetime.time(0, 0, 1, 500_000)]),
    "seconds": (pa.array([NAIVE], pa.timestamp("s")), "TIMESTAMP(0)", [NAIVE]),
    "ns": (pa.array([1_500], pa.timestamp("ns")).take(pa.array([], pa.int64())), "TIMESTAMP(6)", []),
    "ns of whole us": (pa.array([NAIVE], pa.timestamp("ns")), "TIMESTAMP(6)", [NAIVE]),
    "zone": (pa.array([INSTANT], pa.timestamp("us", "Asia/Tokyo")), "TIMESTAMP_LTZ(6)", [NAIVE]),
    "decimal": (pa.array([decimal.Decimal("1.50")], pa.decimal128(38, 2)), "DECIMAL(38, 2)", [decimal.Decimal("1.50")]),
    "decimal of 256 bits": (pa.array([decimal.Decimal(1)], pa.decimal256(38, 0)), "DECIMAL(38, 0)", [decimal.Decimal(1)]),
    "fixed list": (pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), "ARRAY<TINYINT>", [[1, 2], None]),
    "large list": (pa.array([["a", None]], pa.large_list(pa.large_string())), "ARRAY<STRING>", [["a", None]]),
    "nested list": (pa.array([[[1], None, []]], pa.list_(pa.list_(pa.uint8()))), "ARRAY<ARRAY<SMALLINT>>", [[[1], None, []]]),
    "struct": (pa.array([{"a": 1, "b c": ["x"]}]), "ROW<`a` BIGINT, `b c` ARRAY<STRING>>", [{"a": 1, "b c": ["x"]}]),
    "map": (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.uint8())), "MAP<STRING NOT NULL, SMALLINT>", [[("k", 1)]]),
}  # fmt: skip


@pytest.mark.parametrize("what", EXACT)
def test_types_that_flink_stores_exactly_are_converted(what: str) -> None:
    cells, sql, expected = EXACT[what]
    column = column_of_field(pa.field("x", cells.type))
    converted = cells_for_flink(column, cells)
    assert (
        column.sql == sql and converted.type == column.arrow and converted.to_pylist() == expected
    )


@pytest.mark.parametrize(
    "type_",
    [
        pa.null(), pa.duration("us"), pa.decimal256(39, 0), pa.decimal128(38, -1), pa.struct([]), pa.binary(0),
        pa.month_day_nano_interval(), pa.list_(pa.timestamp("us", "UTC")), pa.list_(pa.duration("s")),
        pa.struct([("a", pa.int8()), ("a", pa.int8())]), pa.dense_union([pa.field("a", pa.int8())]),
    ],
    ids=str,
)  # fmt: skip
def test_types_without_a_counterpart_are_refused_by_column(type_: pa.DataType) -> None:
    with pytest.raises(
        SchemaError,
        match=r"^the column 'x y' has the type .*, which Flink does not have.*selectedCols$",
    ):
        column_of_field(pa.field("x y", type_))


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (pa.array([1_500], pa.timestamp("ns")), "would lose data"),
        (pa.array([1], pa.time64("us")), "would lose data"),
    ],
)
def test_cells_that_do_not_fit_are_refused(cells: pa.Array, words: str) -> None:
    with pytest.raises(
        RowError,
        match=rf"^column 'x', row 1: a cell of the type {cells.type!s}".replace("[", r"\[")
        + f".*{words}",
    ):
        cells_for_flink(column_of_field(pa.field("x", cells.type)), cells)


def declared(sql: str) -> Any:
    (column,) = Schema.parse(f"x {sql}").all_nullable
    return declared_column(column)


@pytest.mark.parametrize(
    ("sql", "cells", "expected"),
    [
        ("INT", pa.array(["1", None]), [1, None]),
        ("DATE", pa.array(["2024-05-31"]), [datetime.date(2024, 5, 31)]),
        ("STRING", pa.array([1.5]), ["1.5"]),
        ("VARCHAR(2)", pa.array(["äö", None]), ["äö", None]),
        ("CHAR(3)", pa.array(["äö", None, ""]), ["äö ", None, "   "]),
        ("ARRAY<VARCHAR(2)>", pa.array([["äö", None], None, []]), [["äö", None], None, []]),
        (
            "DECIMAL(5, 2)",
            pa.array([decimal.Decimal("1.50")], pa.decimal128(10, 4)),
            [decimal.Decimal("1.50")],
        ),
        ("TIMESTAMP_LTZ(3)", pa.array([NAIVE], pa.timestamp("us")), [NAIVE]),
        ("ARRAY<FLOAT>", pa.array([[1, None]]), [[1.0, None]]),
        ("BIGINT", pa.array([5], pa.duration("us")), [5]),
        ("STRING", pa.nulls(2), [None, None]),
        ("DATE", pa.array([MIDNIGHT, None], pa.timestamp("ns")), [MIDNIGHT.date(), None]),
        ("DATE", pa.array([INSTANT], pa.timestamp("s", "Etc/GMT-6")), [datetime.date(2024, 6, 1)]),
        ("BOOLEAN", pa.array([0, 1, None], pa.uint8()), [False, True, None]),
        ("BOOLEAN", pa.array([0.0, 1.0]), [False, True]),
        ("DECIMAL(5, 2)", pa.array([1.55, None]), [decimal.Decimal("1.55"), None]),
        ("DECIMAL(5, 2)", pa.array([1.55], pa.float32()), [decimal.Decimal("1.55")]),
        ("DECIMAL(38, 18)", pa.array([0.1]), [decimal.Decimal("0.1")]),
        ("DECIMAL(38, 0)", pa.array([1e22]), [decimal.Decimal(10**22)]),
        ("ARRAY<DECIMAL(5, 2)>", pa.array([[1.55], None]), [[decimal.Decimal("1.55")], None]),
        ("FLOAT", pa.array([decimal.Decimal("1.5")]), [1.5]),
    ],
)
def test_declared_types_are_cast(sql: str, cells: pa.Array, expected: list[Any]) -> None:
    column = declared(sql)
    check_type(column, cells.type)
    assert cells_for_flink(column, cells).to_pylist() == expected


@pytest.mark.parametrize(
    ("sql", "cells"),
    [
        ("TINYINT", pa.array([300])),
        ("INT", pa.array([1.5])),
        ("INT", pa.array(["one"])),
        ("VARCHAR(1)", pa.array(["äö"])),
        ("VARBINARY(1)", pa.array([b"ab"])),
        ("CHAR(1)", pa.array(["ab"])),
        ("ARRAY<VARCHAR(1)>", pa.array([["a", "äö"]])),
        ("ARRAY<VARBINARY(1)>", pa.array([[b"ab"]], pa.large_list(pa.binary()))),
        ("DECIMAL(5, 2)", pa.array([decimal.Decimal("1.555")])),
        ("FLOAT", pa.array([2**24 + 1])),
    ],
)
def test_declared_types_do_not_lose_cells(sql: str, cells: pa.Array) -> None:
    with pytest.raises(RowError, match="^column 'x', row 1: .* declare another type in schemaStr"):
        cells_for_flink(declared(sql), cells)


@pytest.mark.fault("data", "A declared type that would change a cell refuses it")
@pytest.mark.parametrize(
    ("sql", "cells", "words"),
    [
        ("DATE", pa.array([MIDNIGHT, NAIVE]), "it has a time of day: declare TIMESTAMP for it"),
        ("DATE", pa.array([MIDNIGHT, NAIVE], pa.timestamp("s", "UTC")), "it has a time of day"),
        ("ARRAY<DATE>", pa.array([[], [None, NAIVE]]), "it has a time of day"),
        ("BOOLEAN", pa.array([1, 2]), "it is neither 0 nor 1: declare INT"),
        ("BOOLEAN", pa.array([0.0, 0.5]), "it is neither 0 nor 1"),
        ("BOOLEAN", pa.array([1.0, float("nan")]), "it is neither 0 nor 1"),
        ("ARRAY<BOOLEAN>", pa.array([[0], [5]]), "it is neither 0 nor 1"),
        ("DECIMAL(5, 2)", pa.array([1.55, 1.555]), "data loss"),
        ("DECIMAL(5, 2)", pa.array([1.55, 1.555], pa.float32()), "data loss"),
        ("ARRAY<DECIMAL(5, 2)>", pa.array([[1.55], [1.555]]), "data loss"),
        ("FLOAT", pa.array([1, decimal.Decimal("1e58")], pa.decimal256(59, 0)), "beyond FLOAT"),
    ],
)
def test_cells_that_a_declared_type_would_change_are_refused(
    sql: str, cells: pa.Array, words: str
) -> None:
    with pytest.raises(RowError, match=f"^column 'x', row 2: .*{words}"):
        cells_for_flink(declared(sql), cells)


@pytest.mark.parametrize(
    ("sql", "found", "words"),
    [
        ("TIMESTAMP", pa.int64(), r"no unit of time: declare BIGINT .*TO_TIMESTAMP_LTZ\(x, 3\)"),
        ("TIMESTAMP_LTZ(3)", pa.int64(), "no unit of time"),
        ("ARRAY<TIMESTAMP(3)>", pa.list_(pa.int64()), "no unit of time"),
        ("TIME(3)", pa.int32(), "no unit of time"),
        ("TIME(3)", pa.timestamp("us"), "it has a date: declare TIMESTAMP for it"),
    ],
)
def test_types_without_an_exact_cast_are_refused_before_a_job(
    sql: str, found: pa.DataType, words: str
) -> None:
    with pytest.raises(SchemaError, match=f"cannot become .*{words}"):
        check_type(declared(sql), found)


def test_types_of_later_files_have_to_fit_the_first_one() -> None:
    text = column_of_field(pa.field("x", pa.string()))
    for same in (pa.large_string(), pa.dictionary(pa.int32(), pa.string()), pa.null()):
        check_type(text, same)
    with pytest.raises(
        SchemaError, match="'x' has the type BIGINT, but STRING in the first file: declare"
    ):
        check_type(text, pa.int64())
    with pytest.raises(SchemaError, match="has instants.*declare TIMESTAMP_LTZ"):
        check_type(declared("TIMESTAMP(3)"), pa.timestamp("ms", "UTC"))
    instants = pa.array([[INSTANT]], pa.large_list(pa.timestamp("us", "Asia/Tokyo")))
    with pytest.raises(SchemaError, match="has instants.*: declare ARRAY<STRING> for it"):
        check_type(declared("ARRAY<TIMESTAMP(6)>"), instants.type)
    texts = cells_for_flink(declared("ARRAY<STRING>"), instants).to_pylist()
    assert texts == [["2024-06-01 03:00:00.000000+0900"]]
    with pytest.raises(SchemaError, match="has instants.*: declare TIMESTAMP_LTZ for it"):
        check_type(declared("TIMESTAMP(6)"), pa.dictionary(pa.int8(), instants.type.value_type))
    with pytest.raises(SchemaError, match="cannot become ARRAY<INT>"):
        check_type(declared("ARRAY<INT>"), pa.string())


def invalid(kind: pa.DataType, *texts: bytes) -> pa.Array:
    return pa.array(
        list(texts), pa.large_binary() if kind == pa.large_string() else pa.binary()
    ).view(kind)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_texts_that_are_not_utf8_are_refused_with_their_row(kind: pa.DataType) -> None:
    cells = invalid(kind, b"ok", b"caf\xe9", b"\xff")
    told = "^column 'x', row 12: a cell is not UTF-8: declare BYTES for it in schemaStr"
    for column in (
        column_of_field(pa.field("x", kind)),
        declared("STRING"),
        declared("VARCHAR(9)"),
        declared("INT"),
    ):
        with pytest.raises(RowError, match=told if column.sql != "INT" else "^column 'x', row "):
            cells_for_flink(column, cells, 11)
    nested = pa.ListArray.from_arrays(
        pa.array([0, 1, 3], pa.int32()), cells.cast(pa.binary()).view(pa.string())
    )
    struct = pa.StructArray.from_arrays([nested], ["a"])
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), nested.values)
    for odd in (nested, struct, words):
        with pytest.raises(RowError, match="^column 'x', row 2: a cell is not UTF-8"):
            cells_for_flink(column_of_field(pa.field("x", odd.type)), odd)
    assert cells_for_flink(declared("BYTES"), cells).to_pylist() == [b"ok", b"caf\xe9", b"\xff"]


def test_damaged_offsets_are_refused() -> None:
    offsets = pa.py_buffer(np.array([0, 1 << 30, 2], np.int32))
    cells = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])
    for column in (column_of_field(pa.field("x", pa.string())), declared("BYTES"), declared("INT")):
        with pytest.raises(RowError, match="^column 'x': the file is damaged: "):
            cells_for_flink(column, cells)


@pytest.mark.parametrize(
    ("sql", "text", "expected"),
    [
        (
            "TIMESTAMP_LTZ(3)",
            "2024-05-31T18:00:00.250000+09:00",
            datetime.datetime(2024, 5, 31, 9, 0, 0, 250_000),
        ),
        (
            "TIMESTAMP(3)",
            "2024-05-31 18:00:00.250000",
            datetime.datetime(2024, 5, 31, 18, 0, 0, 250_000),
        ),
        ("TIME(3)", "18:00:00.25", datetime.time(18, 0, 0, 250_000)),
        ("TIME(0)", "18:00", datetime.time(18)),
        ("TIMESTAMP(3)", "2024-05-31T18:00:00Z", "declare TIMESTAMP_LTZ for it"),
        ("TIMESTAMP_LTZ(3)", "2024-05-31T18:00:00", "declare TIMESTAMP for it"),
        ("TIMESTAMP(3)", "2024-05-31T18:00:00.0001", "would lose data"),
        ("TIME(0)", "18:00:00.5", "would lose data"),
        ("ARRAY<FLOAT>", [1e39], "it is beyond FLOAT"),
    ],
)
def test_texts_are_cast_to_declared_types_or_refused(sql: str, text: Any, expected: Any) -> None:
    column, cells = declared(sql), pa.array([None, text])
    check_type(column, cells.type)
    if isinstance(expected, str):
        with pytest.raises(
            RowError, match=f"^column 'x', row 2: a cell of the type .* does not fit .*{expected}"
        ):
            cells_for_flink(column, cells)
    else:
        assert cells_for_flink(column, cells).to_pylist() == [None, expected]


@pytest.mark.parametrize(
    ("found", "sql", "words"),
    [
        (pa.array(["1" * 31]), "DECIMAL(38, 10)", "does not fit"),
        (
            pa.array([decimal.Decimal(3 * 10**30)], pa.decimal128(38, 0)),
            "DECIMAL(38, 10)",
            "does not fit",
        ),
        (
            pa.array([decimal.Decimal(3 * 10**20)], pa.decimal128(38, 0)),
            "DECIMAL(38, 20)",
            "does not fit",
        ),
        (pa.array([["3e30"]]), "ARRAY<DECIMAL(38, 10)>", "does not fit"),
        (pa.array(["0xFF"]), "TINYINT", "hexadecimal"),
        (pa.array(["0xFFFFFFFFFFFFFFFF"]), "BIGINT", "hexadecimal"),
        (pa.array([["0x1F"]]), "ARRAY<INT>", "hexadecimal"),
        (pa.array(["0x10"]).dictionary_encode(), "INT", "hexadecimal"),
        (pa.array([["0x10"]], pa.large_list(pa.large_string())), "ARRAY<INT>", "hexadecimal"),
        (pa.array(["1e400"]).dictionary_encode(), "DOUBLE", "beyond DOUBLE"),
        (pa.array([1e39]).dictionary_encode(), "FLOAT", "beyond FLOAT"),
        (pa.array([[1e39]], pa.large_list(pa.float64())), "ARRAY<FLOAT>", "beyond FLOAT"),
        (pa.array([[1e39]], pa.list_(pa.float64(), 1)), "ARRAY<FLOAT>", "beyond FLOAT"),
        (pa.array(["1e400"]), "DOUBLE", "beyond DOUBLE"),
        (pa.array(["1e40"]), "FLOAT", "beyond FLOAT"),
        (pa.array([1e40]), "FLOAT", "beyond FLOAT"),
    ],
)
def test_numbers_that_a_cast_would_change_are_refused(
    found: pa.Array, sql: str, words: str
) -> None:
    with pytest.raises(RowError, match=f"^column 'x', row 1: .*{words}"):
        cells_for_flink(declared(sql), found)


@pytest.mark.parametrize(
    ("found", "sql", "expected"),
    [
        (
            pa.array([" 12345678901234567890.5 ", None]),
            "DECIMAL(38, 10)",
            [decimal.Decimal("12345678901234567890.5"), None],
        ),
        (
            pa.array([decimal.Decimal("1.50")], pa.decimal128(38, 2)),
            "DECIMAL(3, 1)",
            [decimal.Decimal("1.5")],
        ),
        (pa.array(["inf", "-Infinity", "1.5"]), "DOUBLE", [float("inf"), float("-inf"), 1.5]),
        (pa.array([float("inf")]), "FLOAT", [float("inf")]),
        (pa.array([" 7 ", "007"]), "INT", [7, 7]),
    ],
)
def test_numbers_that_fit_are_cast_without_change(
    found: pa.Array, sql: str, expected: list[object]
) -> None:
    assert cells_for_flink(declared(sql), found).to_pylist() == expected
