"""Cells of this program, in lists and arrays, are exact in Arrow or refused."""

from __future__ import annotations

import datetime
import decimal
import math
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bridge.codec.ipc import arrow_schema
from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators.flink import memory_cells
from operators.flink.memory_cells import record_batches

D = decimal.Decimal
NAN = math.nan
UTC = datetime.timezone.utc
LATE = datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)
EARLY = datetime.datetime(1960, 1, 1, 0, 0, 0, 1)
EAST = datetime.timezone(datetime.timedelta(hours=8))


def cells_of(sql: str, cells: Any) -> list[Any]:
    (batch,) = record_batches("op", Schema.parse(f"c {sql}"), [cells], len(cells), 1 << 20)
    assert batch.schema == arrow_schema(Schema.parse(f"c {sql}"))
    return batch.column(0).to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("sql", "cells", "expected"),
    [
        ("BOOLEAN", [True, None, np.bool_(False)], [True, None, False]),
        ("BOOLEAN", np.array([0, 1]), [False, True]),
        ("TINYINT", np.array([-128, 127]), [-128, 127]),
        ("BIGINT", [2**53 + 1, None, -(2**63)], [2**53 + 1, None, -(2**63)]),
        ("BIGINT", np.array([2**63 - 1], "uint64"), [2**63 - 1]),
        ("INT", [1.0, None, np.float32(2)], [1, None, 2]),
        ("DOUBLE", [0.1, None, NAN, 1, math.inf], [0.1, None, NAN, 1.0, math.inf]),
        ("DOUBLE", np.array([2**53]), [2.0**53]),
        ("FLOAT", [0.5, 2**24 + 1], [0.5, 2.0**24]),  # a FLOAT has fewer digits
        ("FLOAT", np.array([0.1]), [float(np.float32(0.1))]),
        ("STRING", ["żółć", None, b"x"], ["żółć", None, "x"]),
        ("VARCHAR(4)", ["żółć", "x"], ["żółć", "x"]),
        ("CHAR(3)", ["x", None], ["x  ", None]),
        ("BYTES", [b"\0", bytearray(b"x"), None], [b"\0", b"x", None]),
        ("BINARY(2)", [b"x", None, b""], [b"x\0", None, b"\0\0"]),
        ("DECIMAL(5, 2)", [D("999.99"), D("-1E+2"), 5, None], [D("999.99"), D("-100.00"), D("5.00"), None]),
        ("DECIMAL(38, 0)", [10**38 - 1], [D(10**38 - 1)]),
        ("DECIMAL(5, 2)", np.array([1, 2]), [D("1.00"), D("2.00")]),
        ("DATE", [datetime.date(1, 1, 1), datetime.datetime(2024, 1, 1), None], [datetime.date(1, 1, 1), datetime.date(2024, 1, 1), None]),
        ("DATE", np.array(["1960-01-01", "NaT"], "M8[ns]"), [datetime.date(1960, 1, 1), None]),
        ("TIME(3)", [datetime.time(23, 59, 59, 999_000), None], [datetime.time(23, 59, 59, 999_000), None]),
        ("TIMESTAMP(6)", [EARLY, LATE, datetime.datetime.min, None], [EARLY, LATE, datetime.datetime.min, None]),
        ("TIMESTAMP(6)", np.array([EARLY, LATE, "NaT"], "M8[us]"), [EARLY, LATE, None]),
        ("TIMESTAMP(6)", [pd.Timestamp(EARLY), np.datetime64(LATE)], [EARLY, LATE]),
        ("TIMESTAMP(1)", [EARLY.replace(microsecond=900_000)], [EARLY.replace(microsecond=900_000)]),
        ("TIMESTAMP_LTZ(6)", [EARLY, EARLY.replace(tzinfo=UTC), LATE.replace(tzinfo=UTC)], [EARLY, EARLY, LATE]),
        ("TIMESTAMP_LTZ(0)", [datetime.datetime(1970, 1, 1, tzinfo=EAST)], [datetime.datetime(1969, 12, 31, 16)]),
        ("ARRAY<BIGINT>", [[2**53 + 1, None], None, [], (1,), np.array([3], "int8")], [[2**53 + 1, None], None, [], [1], [3]]),
        ("ARRAY<FLOAT>", [np.array([1.5, NAN], "f4"), np.ones((1, 2), "f4"), None], [[1.5, NAN], [1.0, 1.0], None]),
        ("ARRAY<DOUBLE>", [[NAN, None]], [[NAN, None]]),
        ("ARRAY<DOUBLE>", [], []),
        ("ARRAY<TIMESTAMP(6)>", [[EARLY, None], np.array([LATE], "M8[us]")], [[EARLY, None], [LATE]]),
        ("ARRAY<DECIMAL(5, 2)>", [[D("1.5"), None]], [[D("1.50"), None]]),
        ("ARRAY<STRING>", [["a", pd.NA], []], [["a", None], []]),
    ],
)  # fmt: skip
def test_cells_from_memory_are_exact(sql: str, cells: Any, expected: list[Any]) -> None:
    assert repr(cells_of(sql, cells)) == repr(expected)


@pytest.mark.parametrize(
    ("sql", "cells", "message"),
    [
        ("BOOLEAN", [True, 1], "row 1: expected a boolean, got 1"),
        ("BOOLEAN", np.array([0, 2]), "row 1: expected a boolean, got 2"),
        ("TINYINT", [300], "a whole number within the range of TINYINT, got 300"),
        ("INT", [1, 1.5], "row 1: expected a whole number within the range of INT, got 1.5"),
        ("INT", np.array([1.5]), "got 1.5"),
        ("INT", ["1"], "got '1'"),
        ("BIGINT", [2**63], "the range of BIGINT, got 9223372036854775808"),
        ("BIGINT", [2.0**63], "the range of BIGINT"),
        (
            "DOUBLE",
            [2**53 + 1],
            r"a number \(integers up to 2\*\*53\) within the range of DOUBLE, got 9007199254740993",
        ),
        ("DOUBLE", np.array([2**53 + 1]), r"integers up to 2\*\*53"),
        ("DOUBLE", ["x"], "a number .* within the range of DOUBLE, got 'x'"),
        ("FLOAT", [1e300], "the range of FLOAT, got 1e\\+300"),
        ("STRING", [1], "expected a string, got 1"),
        ("STRING", [b"\xff"], "expected a string"),
        (
            "VARCHAR(2)",
            ["ab", "abc"],
            "row 1: expected a string of at most 2 characters, got 'abc'",
        ),
        ("BINARY(2)", [b"abc"], "bytes of at most 2 bytes"),
        (
            "DECIMAL(5, 2)",
            [D("1.555")],
            "at most 5 digits, 2 of them after the decimal point, got Decimal\\('1.555'\\)",
        ),
        ("DECIMAL(5, 2)", [D("1234567")], "at most 5 digits"),
        ("DECIMAL(5, 2)", [D("NaN")], "at most 5 digits"),
        ("DECIMAL(5, 2)", [1.5], "a decimal.Decimal or int"),
        ("DATE", [datetime.datetime(2024, 1, 1, 12)], "a datetime at midnight"),
        ("DATE", np.array(["2024-01-01T12"], "M8[ns]"), "a datetime at midnight"),
        ("TIME(3)", [datetime.time(0, 0, 0, 1)], "at most 3 fractional digits"),
        ("TIME", [datetime.time(0, 0, 0, 1000)], "at most 0 fractional digits"),
        ("TIME(3)", [datetime.time(0, tzinfo=UTC)], "without a time zone"),
        ("TIMESTAMP(3)", [EARLY], "at most 3 fractional digits, got datetime"),
        ("TIMESTAMP(0)", [EARLY.replace(microsecond=500_000)], "at most 0 fractional digits"),
        (
            "TIMESTAMP(6)",
            [EARLY.replace(tzinfo=UTC)],
            "a datetime without a time zone \\(TIMESTAMP_LTZ accepts",
        ),
        (
            "TIMESTAMP(6)",
            [pd.Timestamp("2024-01-01 00:00:00.000000001")],
            "at most 6 fractional digits",
        ),
        (
            "TIMESTAMP(6)",
            np.array(["1969-12-31T23:59:59.999999999"], "M8[ns]"),
            "at most 6 fractional digits",
        ),
        ("TIMESTAMP(0)", np.array([2**62], "M8[s]"), "expected a datetime"),
        ("TIMESTAMP(6)", ["2024-01-01 00:00:00"], "expected a datetime"),
        ("TIMESTAMP(6)", np.array([1000]), "expected a datetime"),
        ("TIMESTAMP_LTZ(6)", [datetime.datetime(1, 1, 1, tzinfo=EAST)], "expected a datetime"),
        (
            "BYTES",
            np.array([b"a"]),
            "expected bytes in a list or an array of objects, since numpy cuts NUL .*, got b'a'",
        ),
        ("BYTES", [np.bytes_(b"a")], "since numpy cuts NUL"),
        ("ARRAY<BYTES>", [[b"a"], np.array([b"a"])], "since numpy cuts NUL"),
        (
            "ARRAY<INT>",
            [[1], [2, "x"]],
            "row 1: expected an array with a whole number .* in each element, got 'x'",
        ),
        ("ARRAY<INT>", [[[1]]], "got \\[1\\]"),
        ("ARRAY<STRING>", ["ab"], "expected a list or an array, got 'ab'"),
        ("ARRAY<INT NOT NULL>", [[1], [1, None]], "row 1: .*NOT NULL"),
        ("INT NOT NULL", [1, None], "row 1: expected a value, since it is NOT NULL, got null"),
    ],
)
@pytest.mark.fault("data", "A cell that its type does not hold exactly is refused")
def test_cells_that_would_change_are_refused(sql: str, cells: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"op: column 'c' does not fit .*{message}"):
        cells_of(sql, cells)


def test_batches_have_about_the_size_that_is_wanted() -> None:
    schema = Schema.parse("n BIGINT, s STRING")
    numbers = list(range(100_000))
    batches = list(
        record_batches("op", schema, [numbers, list(map(str, numbers))], len(numbers), 1 << 16)
    )
    assert len(batches) > 20
    assert [number for batch in batches for number in batch.column(0).to_pylist()] == numbers
    (empty,) = record_batches("op", schema, [[], []], 0, 1 << 16)
    assert empty.num_rows == 0 and empty.schema == arrow_schema(schema)


def test_cells_that_do_not_fit_one_array_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with two gigabytes of text, of which no test makes much."""
    real = memory_cells.cells_to_arrow

    def small(*arguments: Any) -> Any:
        if len(arguments[1]) > 3:
            raise memory_cells._TooLargeError
        return real(*arguments)

    monkeypatch.setattr(memory_cells, "cells_to_arrow", small)
    batches = list(record_batches("op", Schema.parse("n BIGINT"), [list(range(10))], 10, 1 << 20))
    assert [batch.column(0).to_pylist() for batch in batches] == [
        [0, 1],
        [2, 3, 4],
        [5, 6],
        [7, 8, 9],
    ]


def test_decimals_with_more_digits_than_their_type_are_refused_with_their_row() -> None:
    """DuckDB's HUGEINT is a DECIMAL(38, 0) with 39 digits."""
    wide = pa.array([5, 2**127 - 1], pa.decimal256(39, 0))
    words = b"".join(int(cell).to_bytes(16, "little") for cell in wide.to_pylist())
    cells = pa.Array.from_buffers(pa.decimal128(38, 0), 2, [None, pa.py_buffer(words)])
    for type_ in ("DECIMAL(38, 0)", "DECIMAL(20, 0)"):
        with pytest.raises(
            ConfigurationError,
            match="Op: column 'h' does not fit DECIMAL.*: row 1: .* digits, .*, got .*17014118",
        ):
            list(
                record_batches(
                    "Op", Schema.parse(f"h {type_}"), [pa.chunked_array([cells])], 2, 1 << 20
                )
            )
