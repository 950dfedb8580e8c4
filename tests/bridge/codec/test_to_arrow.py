"""What scripts write, to Arrow arrays; and all that does not fit."""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from akdl.wire import BOOL, BYTES, FLOAT32, FLOAT64, INT8, INT64, Column, Rows
from akdl.wire.cells import Cells, fill_column
from bridge.codec.to_arrow import ColumnDecoder
from bridge.exceptions import RowError
from bridge.schema import Schema

NUMBERS = {bool: "?", int: "<i8", float: "<f8"}


def offsets(*lengths: int) -> np.ndarray[Any, Any]:
    return np.cumsum([0, *lengths], dtype="<i4")


def column_of(cells: list[Any], dtype: Any = None, name: str = "x") -> Column:
    """Return the message of cells: numbers or bytes, or lists of them, or None."""
    valid = np.array([cell is not None for cell in cells], bool)
    is_array = any(isinstance(cell, list) for cell in cells)
    values = [value for cell in cells for value in cell or []] if is_array else cells
    cell_offsets = offsets(*(len(cell or []) for cell in cells)) if is_array else None
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bytes}:
        texts = [value or b"" for value in values]
        flat = Cells(
            np.frombuffer(b"".join(texts), "u1"), valid, cell_offsets, offsets(*map(len, texts))
        )
    else:
        (kind,) = kinds or {int}
        numbers = np.array(
            [kind(99) if value is None else value for value in values], dtype or NUMBERS[kind]
        )
        flat = Cells(numbers, valid, cell_offsets)
    return fill_column(Column(), name, flat)


def decode(sql: str, cells: list[Any], dtype: str | None = None) -> Any:
    decoder = ColumnDecoder(Schema.parse(f"x {sql}"))
    (array,) = decoder.decode(Rows(rows=len(cells), columns=[column_of(cells, dtype)]))
    array.validate(full=True)
    assert array.type == decoder.arrow_schema.field("x").type
    return array.to_pylist()


@pytest.mark.parametrize(
    ("sql", "cell", "dtype", "expected"),
    [
        ("BOOLEAN", True, None, True),
        ("BOOLEAN", 1, None, True),
        ("BOOLEAN", 0, "<i1", False),
        ("TINYINT", -128, None, -128),
        ("SMALLINT", 5, "<i1", 5),
        ("INT", -(2**31), None, -(2**31)),
        ("BIGINT", -(2**63), None, -(2**63)),
        ("BIGINT", 7, "<i2", 7),
        ("FLOAT", 0.5, "<f4", 0.5),
        ("FLOAT", 0.5, "<f8", 0.5),
        ("FLOAT", np.inf, "<f8", np.inf),
        ("DOUBLE", 0.5, "<f4", 0.5),
        ("DOUBLE", 0.1, "<f8", 0.1),
        ("DOUBLE", np.float64(0.1).tobytes(), None, 0.1),
        ("STRING", "é".encode(), None, "é"),
        ("STRING", b"", None, ""),
        ("VARCHAR(2)", "żó".encode(), None, "żó"),
        ("CHAR(3)", "żół".encode(), None, "żół"),
        ("CHAR(3)", "ż".encode(), None, "ż  "),
        ("BYTES", b"\xff", None, b"\xff"),
        ("VARBINARY(2)", b"ab", None, b"ab"),
        ("BINARY(3)", b"a", None, b"a\x00\x00"),
        ("BINARY(1)", b"a", None, b"a"),
        ("DECIMAL(5, 2)", b"1.5", None, decimal.Decimal("1.50")),
        ("ARRAY<DOUBLE>", [0.5, 1.5], "<f4", [0.5, 1.5]),
        ("ARRAY<DOUBLE>", [np.array([0.1, 1e300]).tobytes()], None, [0.1, 1e300]),
        ("ARRAY<DOUBLE>", [np.float64(0.1).tobytes(), np.float64(2).tobytes()], None, [0.1, 2.0]),
        ("ARRAY<BOOLEAN>", [1, 0], None, [True, False]),
        ("ARRAY<BOOLEAN>", [True, False], None, [True, False]),
        ("ARRAY<FLOAT>", [0.5, 1.5], None, [0.5, 1.5]),
        ("ARRAY<BIGINT>", [], None, []),
        ("ARRAY<STRING>", [b"a", b""], None, ["a", ""]),
        ("ARRAY<CHAR(2)>", [b"a", b""], None, ["a ", "  "]),
        ("ARRAY<BINARY(2)>", [b"a", b"bc"], None, [b"a\x00", b"bc"]),
        ("ARRAY<BYTES>", [b"a", b""], None, [b"a", b""]),
        (
            "ARRAY<DECIMAL(3, 1)>",
            [b"1", b"2.5"],
            None,
            [decimal.Decimal("1.0"), decimal.Decimal("2.5")],
        ),
    ],
)
def test_every_type_becomes_its_arrow_array(
    sql: str, cell: Any, dtype: str | None, expected: Any
) -> None:
    assert decode(sql, [cell], dtype) == [expected]
    assert decode(sql, [None, cell, cell, None], dtype) == [None, expected, expected, None]
    assert decode(f"{sql} NOT NULL", [cell], dtype) == [expected]


def test_times_become_arrow_arrays_with_nulls() -> None:
    """See also `test_temporal`."""
    schema = Schema.parse("a TIMESTAMP_LTZ(3), b ARRAY<DATE>, c ARRAY<TIME(3)>")
    columns = [
        column_of([1000, None], name="a"),
        column_of([[0, 1], []], name="b"),
        column_of([[b"00:00:01"], None], name="c"),
    ]
    a, b, c = ColumnDecoder(schema).decode(Rows(rows=2, columns=columns))
    assert a.cast(pa.int64()).to_pylist() == [1, None]
    assert [cell and [str(day) for day in cell] for cell in b.to_pylist()] == [
        ["1970-01-01", "1970-01-02"],
        [],
    ]
    assert [cell and [str(time) for time in cell] for cell in c.to_pylist()] == [["00:00:01"], None]


def test_nan_is_a_number() -> None:
    for sql in ("FLOAT", "DOUBLE"):
        (found,) = decode(sql, [np.nan])
        assert np.isnan(found)


@pytest.mark.parametrize(
    ("sql", "bad", "words"),
    [
        ("INT", 2**31, "expected a value from -2147483648 to 2147483647, got 2147483648"),
        ("TINYINT", -129, "expected a value from -128 to 127, got -129"),
        ("BOOLEAN", 2, "expected a value from 0 to 1, got 2"),
        ("FLOAT", 1e39, "expected a number within the range of FLOAT, got 1e+39"),
        (
            "STRING",
            b"\xff",
            "expected UTF-8 text, got bytes that are not valid UTF-8 (invalid start byte at byte 0)",
        ),
        ("VARCHAR(2)", b"abc", "expected at most 2 characters, got 3"),
        ("CHAR(2)", "żół".encode(), "expected at most 2 characters, got 3"),
        ("BINARY(2)", b"abc", "expected at most 2 bytes, got 3"),
        ("VARBINARY(2)", b"abc", "expected at most 2 bytes, got 3"),
        (
            "DECIMAL(3, 1)",
            b"1.25",
            "expected a number of at most 3 digits, 1 of them behind the point, got b'1.25'",
        ),
        ("DECIMAL(5, 2)", b"one", "expected a decimal number as text, got b'one'"),
        ("DOUBLE", b"1234", "expected 8 bytes for each value, got 4 bytes"),
        ("DATE", b"2020-01", "expected a DATE as text such as '2020-01-31', got b'2020-01'"),
        ("DATE", 2_932_897, "expected a value from -719162 to 2932896, got 2932897"),
        ("TIME(3)", b"24:00:00", "expected a TIME as text such as '23:59:59.123', got b'24:00:00'"),
        ("TIMESTAMP(3)", 1, "expected 3 digits behind the second, got 1"),
        ("TIMESTAMP_LTZ(3)", b"noon", "expected a TIMESTAMP_LTZ as text such as"),
    ],
)
@pytest.mark.fault("data", "A value that does not fit its column is an error with row and column")
def test_values_that_do_not_fit_are_refused(sql: str, bad: float | bytes, words: str) -> None:
    with pytest.raises(RowError) as caught:
        decode(sql, [None, bad, bad])
    assert str(caught.value).startswith(f"the script wrote row 1: column 'x' ({sql}): {words}")
    with pytest.raises(RowError) as caught:
        decode(f"ARRAY<{sql}>", [[], None, [bad]]) if not sql.startswith(
            "TIMESTAMP_LTZ"
        ) else decode(sql, [None, None, bad])
    assert str(caught.value).startswith("the script wrote row 2: column 'x' (")
    assert words in str(caught.value)


def test_bad_value_at_a_null_is_ignored() -> None:
    schema = Schema.parse("x INT")
    column = Column(name="x", type=INT64, values=np.array([2**40, 5]).tobytes(), valid=b"\x02")
    assert ColumnDecoder(schema).decode(Rows(rows=2, columns=[column]))[0].to_pylist() == [None, 5]


@pytest.mark.parametrize(
    ("sql", "column", "words"),
    [
        (
            "BIGINT",
            {"type": FLOAT32, "values": bytes(8)},
            "expected an int64_list with 1 value, got a batch of float32 values",
        ),
        (
            "INT",
            {"type": BOOL, "values": b"\3"},
            "expected an int64_list with 1 value, got a batch of bool values",
        ),
        (
            "FLOAT",
            {"type": INT8, "values": b"ab"},
            "expected a float_list with 1 value, got a batch of int8 values",
        ),
        (
            "DOUBLE",
            {"type": INT64, "values": bytes(16)},
            "expected a float_list (or a bytes_list of 8 bytes) with 1 value, got a batch of int64 values",
        ),
        (
            "STRING",
            {"type": INT64, "values": bytes(16)},
            "expected a bytes_list with 1 value, got a batch of int64 values",
        ),
        (
            "DATE",
            {"type": FLOAT64, "values": bytes(16)},
            "expected an int64_list (or a bytes_list of text) with 1 value, got a batch of float64 values",
        ),
        (
            "ARRAY<INT>",
            {"type": FLOAT64, "cell_offsets": offsets(0, 0).tobytes()},
            "expected an int64_list, got a batch of float64",
        ),
        (
            "INT",
            {"type": INT64, "cell_offsets": offsets(0, 0).tobytes()},
            "expected an int64_list with 1 value, got a batch of arrays",
        ),
        (
            "ARRAY<INT>",
            {"type": INT64, "values": bytes(16)},
            "expected an int64_list, got a batch without arrays",
        ),
        (
            "ARRAY<INT>",
            {"type": INT64, "cell_offsets": offsets(1).tobytes(), "values": bytes(8)},
            "expected 2 arrays, got 8 bytes of offsets",
        ),
        (
            "ARRAY<INT>",
            {"type": INT64, "cell_offsets": offsets(1, 1).tobytes(), "values": bytes(24)},
            "expected 2 values, got 3",
        ),
        (
            "INT",
            {"type": INT64, "values": bytes(15)},
            "expected whole numbers of bytes, got 15 bytes",
        ),
        ("INT", {"type": INT64, "values": bytes(8)}, "expected 2 values, got 1"),
        (
            "INT",
            {"type": INT64, "values": bytes(16), "valid": bytes(2)},
            "expected 2 rows, got a null bitmap of 16 bits",
        ),
    ],
)
def test_messages_that_contradict_themselves_are_refused(
    sql: str, column: dict[str, Any], words: str
) -> None:
    with pytest.raises(RowError) as caught:
        ColumnDecoder(Schema.parse(f"x {sql}")).decode(
            Rows(rows=2, columns=[Column(name="x", **column)])
        )
    assert str(caught.value).startswith(f"the script wrote row 0: column 'x' ({sql}): {words}")


def test_missing_columns_become_null_and_unknown_ones_are_refused() -> None:
    decoder = ColumnDecoder(Schema.parse("a INT, b ARRAY<STRING>, c BINARY(3)"))
    a, b, c = decoder.decode(Rows(rows=2, columns=[column_of([1, 2], name="a")]))
    assert (a.to_pylist(), b.to_pylist(), c.to_pylist()) == ([1, 2], [None, None], [None, None])
    assert [array.type for array in (a, b, c)] == decoder.arrow_schema.types
    with pytest.raises(
        RowError, match="row 2: unknown column 'y', 'z'; outputSchemaStr has 'a', 'b', 'c'"
    ):
        decoder.decode(Rows(rows=1, columns=[column_of([1], name="z"), column_of([1], name="y")]))


def test_null_is_refused_in_a_not_null_column() -> None:
    decoder = ColumnDecoder(Schema.parse("x INT NOT NULL"))
    words = r"row 1: column 'x' \(INT NOT NULL\): expected a value, since the column is NOT NULL, got none"
    with pytest.raises(RowError, match=words):
        decoder.decode(Rows(rows=3, columns=[column_of([1, None, None])]))
    with pytest.raises(RowError, match=words.replace("1", "0")):
        decoder.decode(Rows(rows=3))


def test_rows_are_counted_over_messages() -> None:
    decoder = ColumnDecoder(Schema.parse("x INT"), "op: script.py")
    decoder.decode(Rows(rows=2, columns=[column_of([1, 2])]))
    with pytest.raises(RowError, match=r"op: script\.py wrote row 3: column 'x'"):
        decoder.decode(Rows(rows=2, columns=[column_of([1, 2**31])]))


def test_messages_without_rows_become_empty_arrays() -> None:
    decoder = ColumnDecoder(Schema.parse("a INT, b STRING, c ARRAY<STRING>, d BINARY(2), e DATE"))
    empty = Column(name="b", type=BYTES, value_offsets=bytes(4))
    arrays = decoder.decode(
        Rows(
            columns=[
                empty,
                Column(name="e", type=INT64),
                Column(name="d", type=BYTES, value_offsets=bytes(4)),
            ]
        )
    )
    assert [len(array) for array in arrays] == [0] * 5
