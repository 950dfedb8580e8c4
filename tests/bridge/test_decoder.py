"""What scripts write, to rows; and all that does not fit."""

import numpy as np
import pytest
from pyflink.common.time import Instant

from akdl.columns import encode_columns
from akdl.wire import BYTES, FLOAT64, ColumnValues, Example, Rows, TableColumn
from bridge.decoder import RowDecoder
from bridge.exceptions import RowError, SchemaError
from bridge.schema import Schema


def example(**features):
    made = Example()
    for name, (kind, *values) in features.items():
        getattr(made.features.feature[name], f"{kind}_list").value.extend(values)
    return made.SerializeToString()


def decode(schema, *examples):
    return list(zip(*RowDecoder(Schema.parse(schema)).decode(Rows(rows=len(examples), examples=examples))))


def decode_batch(schema, **values):
    parsed = Schema.parse(schema)
    columns = [TableColumn(name=column.name, type=column.type.sql) for column in parsed]
    message = encode_columns(values, columns)
    return list(zip(*RowDecoder(parsed).decode(Rows.FromString(message.SerializeToString()))))


@pytest.mark.parametrize(
    ("sql", "feature", "expected"),
    [
        ("BOOLEAN", ("int64", 1), True),
        ("BIGINT", ("int64", -(2**63)), -(2**63)),
        ("FLOAT", ("float", 0.5), 0.5),
        ("DOUBLE", ("float", 0.5), 0.5),
        ("DOUBLE", ("bytes", np.float64(0.1).tobytes()), 0.1),
        ("STRING", ("bytes", "é".encode()), "é"),
        ("BYTES", ("bytes", b"\xff"), b"\xff"),
        ("DECIMAL(5, 2)", ("bytes", b"1.5"), "1.50"),
        ("DATE", ("int64", 1), "1970-01-02"),
        ("DATE", ("bytes", b"2024-02-29"), "2024-02-29"),
        ("TIME(3)", ("int64", 1005), "00:00:01.005"),
        ("TIME", ("int64", 1000), "00:00:01.000"),
        ("TIME(3)", ("bytes", b"23:59:59.5"), "23:59:59.500"),
        ("TIME", ("bytes", b"12:30"), "12:30:00.000"),
        ("TIMESTAMP(6)", ("int64", -1), "1969-12-31 23:59:59.999999"),
        ("TIMESTAMP(6)", ("bytes", b"2024-02-29T12:00:00"), "2024-02-29 12:00:00.000000"),
        ("TIMESTAMP(3)", ("bytes", b"0001-01-01 00:00:00.123"), "0001-01-01 00:00:00.123000"),
        ("TIMESTAMP_LTZ(6)", ("int64", -1), Instant(-1, 999_999_000)),
        ("TIMESTAMP_LTZ(3)", ("bytes", b"1970-01-01T00:00:01.5Z"), Instant(1, 500_000_000)),
        ("TIMESTAMP_LTZ(3)", ("bytes", b"1970-01-01 00:00:01+00:00"), Instant(1, 0)),
        ("DATE", ("int64", -719_162), "0001-01-01"),
        ("CHAR(3)", ("bytes", "żół".encode()), "żół"),
        ("DECIMAL(38, 0)", ("bytes", b"9" * 38), "9" * 38),
        ("DECIMAL(3, 3)", ("bytes", b"1e-3"), "0.001"),
        ("ARRAY<DOUBLE>", ("bytes", np.array([0.1, 1e300]).tobytes()), [0.1, 1e300]),
        ("ARRAY<BOOLEAN>", ("int64", 1, 0), [True, False]),
        ("ARRAY<DATE>", ("int64", 0, 1), ["1970-01-01", "1970-01-02"]),
        ("ARRAY<DECIMAL(3, 1)>", ("bytes", b"1", b"2.5"), ["1.0", "2.5"]),
        ("ARRAY<FLOAT>", ("float", 0.5, 1.5), [0.5, 1.5]),
        ("ARRAY<BIGINT>", ("int64",), []),
        ("ARRAY<STRING>", ("bytes", b"a", b""), ["a", ""]),
    ],
)
def test_examples(sql, feature, expected):
    assert decode(f"x {sql}, y INT", example(x=feature)) == [(expected, None)]


def test_a_feature_without_a_kind_is_null():
    made = Example()
    made.features.feature["x"].SetInParent()
    assert decode("x INT", made.SerializeToString()) == [(None,)]


@pytest.mark.parametrize(
    ("sql", "feature", "words"),
    [
        ("BIGINT", ("float", 1.0), "expected an int64_list with 1 value, got a float_list with 1 value"),
        ("BIGINT", ("int64", 1, 2), "got an int64_list with 2 values"),
        ("BIGINT", ("int64",), "got an int64_list with 0 values"),
        ("INT", ("int64", 2**31), "expected a value from -2147483648 to 2147483647, got 2147483648"),
        ("BOOLEAN", ("int64", 2), "expected a value from 0 to 1, got 2"),
        ("STRING", ("bytes", b"\xff"), "expected UTF-8 text"),
        ("VARCHAR(2)", ("bytes", b"abc"), "expected at most 2 characters, got 3"),
        ("BINARY(2)", ("bytes", b"abc"), "expected at most 2 bytes, got 3"),
        ("DECIMAL(5, 2)", ("bytes", b"1234.5"), "expected a number of 5 digits, 2 of them behind the point"),
        ("DECIMAL(5, 2)", ("bytes", b"1.234"), "expected a number of 5 digits, 2 of them behind the point"),
        ("DECIMAL(5, 2)", ("bytes", b"one"), "expected a decimal number as text"),
        ("DOUBLE", ("bytes", b"1234"), "expected 8 bytes for each value, got 4 bytes"),
        ("DECIMAL(5, 2)", ("bytes", b"NaN"), "expected a number of 5 digits"),
        ("DECIMAL(5, 2)", ("bytes", b"1e999"), "expected a decimal number"),
        ("TIMESTAMP(3)", ("bytes", b"noon"), "expected a TIMESTAMP as text such as"),
        ("TIMESTAMP(3)", ("bytes", b"now"), "expected a TIMESTAMP as text such as"),
        ("TIMESTAMP(3)", ("bytes", b"2024-02-30 00:00:00"), "expected a TIMESTAMP as text such as"),
        ("TIMESTAMP(3)", ("bytes", b"2024-02-29 00:00:00+08:00"), "expected a TIMESTAMP as text such as"),
        ("TIMESTAMP(3)", ("bytes", b"2024-02-29 00:00:00.0001"), "expected 3 digits behind the second"),
        ("TIMESTAMP(3)", ("int64", 1), "expected 3 digits behind the second, got 1"),
        ("TIMESTAMP_LTZ(3)", ("int64", 1), "expected 3 digits behind the second, got 1"),
        ("TIMESTAMP(0)", ("int64", 1000), "expected no digits behind the second, got 1000"),
        ("TIME", ("int64", 1005), "expected no digits behind the second, got 1005"),
        ("TIME(3)", ("bytes", b"00:00:01.0001"), "expected at most 3 digits behind the second"),
        ("TIME(3)", ("bytes", b"24:00:00"), "expected a TIME as text"),
        ("DATE", ("bytes", b""), "expected a DATE as text such as '2020-01-31', got b''"),
        ("DATE", ("bytes", b"2020-01"), "expected a DATE as text"),
        ("DATE", ("int64", 2_932_897), "expected a value from -719162 to 2932896"),
        ("TIME", ("int64", -1), "expected a value from 0 to 86399999"),
        ("ARRAY<TINYINT>", ("int64", 1, 200), "expected a value from -128 to 127, got 200"),
    ],
)
def test_values_that_do_not_fit(sql, feature, words):
    with pytest.raises(RowError, match="the script wrote row 1: column 'x'") as caught:
        decode(f"x {sql}", example(), example(x=feature))
    assert words in str(caught.value)


def test_unknown_columns_and_missing_values():
    with pytest.raises(RowError, match="row 0: unknown column 'z'; outputSchemaStr has 'x'"):
        decode("x INT", example(z=("int64", 1)))
    with pytest.raises(RowError, match="expected a value, since the column is NOT NULL, got none"):
        decode("x INT NOT NULL", example())


def test_rows_are_counted_over_messages():
    decoder = RowDecoder(Schema.parse("x INT"), "op: script.py")
    decoder.decode(Rows(rows=2, examples=[example(), example()]))
    with pytest.raises(RowError, match=r"op: script\.py wrote row 2: column 'x'"):
        decoder.decode(Rows(rows=1, examples=[example(x=("float", 1.0))]))


def test_columns_with_nulls_lists_and_missing_ones():
    assert decode_batch(
        "a BIGINT, b DOUBLE, c STRING, d ARRAY<STRING>, e BOOLEAN, f INT",
        a=np.array([1, 2, 3]), b=[1.5, None, 2.5], c=["x", None, b"z"], d=[["p", "q"], None, []], e=[True, False, None],
    ) == [
        (1, 1.5, "x", ["p", "q"], True, None), (2, None, None, None, False, None), (3, 2.5, "z", [], None, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sql", "values", "words"),
    [
        ("INT", [1, 2**31], "row 1: column 'x' (INT): expected a value from"),
        ("INT", [None, 2**31], "row 1: column 'x'"),
        ("ARRAY<TINYINT>", [[1], None, [2, 200]], "row 2: column 'x'"),
        ("DECIMAL(3, 1)", ["1.5", "1.25"], "row 1: column 'x'"),
        ("INT NOT NULL", [1, None], "row 1: column 'x' (INT NOT NULL): expected a value"),
        ("TIMESTAMP(3)", [None, 1000, 1], "row 2: column 'x' (TIMESTAMP(3)): expected 3 digits"),
        ("STRING", ["fine", b"\xff"], "row 1: column 'x' (STRING): expected UTF-8 text"),
    ],
)
def test_columns_that_do_not_fit_name_the_row(sql, values, words):
    with pytest.raises(RowError) as caught:
        decode_batch(f"x {sql}", x=values)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "column", "words"),
    [
        (
            "FLOAT",
            {"type": FLOAT64, "values": np.array([0.5, 1e39]).tobytes()},
            "row 1: column 'x' (FLOAT): expected a number within",
        ),
        ("INT", {"type": FLOAT64, "values": bytes(16)}, "expected an int64_list with 1 value, got a batch of float64 values"),
        ("INT", {"values": bytes(15)}, "expected whole numbers of bytes"),
        ("INT", {"values": bytes(8)}, "expected 2 rows, got 2 rows, 2 of them not null, 1 cells"),
        ("INT", {"values": bytes(8), "valid": b"\1"}, "expected 2 rows, got 1 rows"),
        (
            "STRING",
            {"type": BYTES, "values": b"ab", "value_lengths": np.array([1, 0], "<u4").tobytes()},
            "whole numbers of bytes",
        ),
        ("ARRAY<INT>", {"values": bytes(24), "cell_lengths": np.array([1, 1], "<u4").tobytes()}, "2 cells and 3 values"),
        ("ARRAY<INT>", {"values": bytes(16), "cell_lengths": np.array([2], "<u4").tobytes()}, "1 cells and 2 values"),
        (
            "DOUBLE",
            {"type": BYTES, "values": bytes(16), "value_lengths": np.array([8, 8], "<u4").tobytes()},
            "a batch of bytes",
        ),
    ],
)
def test_messages_that_contradict_themselves(sql, column, words):
    with pytest.raises(RowError, match="row [01]: column 'x'") as caught:
        RowDecoder(Schema.parse(f"x {sql}")).decode(Rows(rows=2, columns=[ColumnValues(name="x", **column)]))
    assert words in str(caught.value)


def test_a_message_with_fewer_rows_than_it_says():
    with pytest.raises(RowError, match="a message of 2 rows holds 1"):
        RowDecoder(Schema.parse("x INT")).decode(Rows(rows=2, examples=[example()]))


def test_types_on_the_way_and_casts():
    decoder = RowDecoder(
        Schema.parse("a INT, b DECIMAL(5, 2), c ARRAY<DATE>, `d``e` VARCHAR(3), f ARRAY<INT NOT NULL> NOT NULL")
    )
    assert decoder.transport_types == ("INT", "STRING", "ARRAY<STRING>", "STRING", "ARRAY<INT>")
    assert decoder.casts == (
        "`a`", "CAST(`b` AS DECIMAL(5, 2)) AS `b`", "CAST(`c` AS ARRAY<DATE>) AS `c`", "CAST(`d``e` AS VARCHAR(3)) AS `d``e`",
        "`f`",
    )  # fmt: skip


def test_arrays_that_flink_cannot_make_are_refused_when_the_job_is_built():
    with pytest.raises(SchemaError, match="take ARRAY<BYTES>"):
        RowDecoder(Schema.parse("x ARRAY<BINARY(3)>"))
