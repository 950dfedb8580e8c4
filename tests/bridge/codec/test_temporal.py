"""Dates, times and timestamps from numbers and text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from akdl.wire import BYTES, INT8, INT64
from bridge.codec.temporal import points_in_time
from bridge.codec.types import arrow_type
from bridge.codec.values import UnfitError, Values
from bridge.schema import Schema


def values(*cells: Any) -> Values:
    """Return values of text or numbers; None is null."""
    bits = (
        np.packbits([cell is not None for cell in cells], bitorder="little").tobytes()
        if None in cells
        else b""
    )
    if any(isinstance(cell, bytes) for cell in cells):
        texts = [cell or b"" for cell in cells]
        return Values(
            BYTES, len(texts), b"".join(texts), np.cumsum([0, *map(len, texts)], dtype="<i4"), bits
        )
    numbers = np.array([-(2**62) if cell is None else cell for cell in cells], "<i8")
    return Values(INT64, len(cells), numbers.tobytes(), bits=bits)


def points(sql: str, *cells: int | bytes | None) -> Any:
    (column,) = Schema.parse(f"x {sql}")
    array = points_in_time(values(*cells), column.type, arrow_type(column.type))
    assert array.type == arrow_type(column.type)
    return array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist()


@pytest.mark.parametrize(
    ("sql", "cell", "expected"),
    [
        ("DATE", 1, 1),
        ("DATE", -719_162, -719_162),
        ("DATE", b"2024-02-29", 19_782),
        ("DATE", b"0001-01-01", -719_162),
        ("DATE", b" 1970-01-02\n", 1),
        ("TIME(3)", 1005, 1005),
        ("TIME", 1000, 1),
        ("TIME(2)", 1010, 1010),
        ("TIME(3)", b"23:59:59.5", 86_399_500),
        ("TIME(3)", b"23:59:59.500000", 86_399_500),
        ("TIME", b"12:30", 45_000),
        ("TIMESTAMP(6)", -1, -1),
        ("TIMESTAMP(4)", -100, -100),
        ("TIMESTAMP(3)", -1000, -1),
        ("TIMESTAMP(1)", 100_000, 100),
        ("TIMESTAMP(0)", -1_000_000, -1),
        ("TIMESTAMP(6)", b"2024-02-29T12:00:00", 1_709_208_000_000_000),
        ("TIMESTAMP(6)", b"1970-01-01 00:00", 0),
        ("TIMESTAMP(3)", b"0001-01-01 00:00:00.123", -62_135_596_799_877),
        ("TIMESTAMP(6)", b"9999-12-31 23:59:59.999999", 253_402_300_799_999_999),
        ("TIMESTAMP_LTZ(6)", -1, -1),
        ("TIMESTAMP_LTZ(3)", b"1970-01-01T00:00:01.5Z", 1500),
        ("TIMESTAMP_LTZ(3)", b"1970-01-01 00:00:01+00:00", 1000),
        ("TIMESTAMP_LTZ(3)", b"1970-01-01 00:00:01", 1000),
    ],
)
def test_dates_and_times_are_read_from_numbers_and_texts(
    sql: str, cell: int | bytes, expected: int
) -> None:
    assert points(sql, cell) == [expected]
    assert points(sql, None, cell, None, cell) == [None, expected, None, expected]


@pytest.mark.parametrize(
    ("sql", "cell", "expected", "got"),
    [
        ("DATE", 2_932_897, "a value from -719162 to 2932896", "2932897"),
        ("DATE", b"0000-12-31", "a value from -719162 to 2932896", "-719163"),
        ("DATE", b"", "a DATE as text such as '2020-01-31'", "b''"),
        ("DATE", b"2020-01", "a DATE as text such as '2020-01-31'", "b'2020-01'"),
        ("DATE", b"20200131", "a DATE as text such as '2020-01-31'", "b'20200131'"),
        ("DATE", b"\xff", "a DATE as text such as '2020-01-31'", r"b'\xff'"),
        ("TIME", -1, "a value from 0 to 86399999", "-1"),
        ("TIME", 1005, "no digits behind the second", "1005"),
        ("TIME(1)", 1050, "1 digits behind the second", "1050"),
        ("TIME(3)", b"00:00:01.0001", "at most 3 digits behind the second", "b'00:00:01.0001'"),
        ("TIME(3)", b"24:00:00", "a TIME as text such as '23:59:59.123'", "b'24:00:00'"),
        ("TIMESTAMP(3)", 1, "3 digits behind the second", "1"),
        ("TIMESTAMP_LTZ(3)", 1, "3 digits behind the second", "1"),
        ("TIMESTAMP(0)", 1000, "no digits behind the second", "1000"),
        ("TIMESTAMP(4)", 10, "4 digits behind the second", "10"),
        ("TIMESTAMP(6)", 2**62, "a value from -62135596800000000 to 253402300799999999", str(2**62)),
        ("TIMESTAMP(3)", b"2024-02-29 00:00:00.0001", "3 digits behind the second", "1709164800000100"),
        *(
            ("TIMESTAMP(3)", text, "a TIMESTAMP as text such as '2020-01-31 23:59:59.123456'", repr(text))
            for text in (
                b"noon", b"now", b"2024-02-30 00:00:00", b"2024-02-29 00:00:00+08:00", b"2024-02-29 00:00:00Z", b"2024-02-29",
                b"2024-02-29 00", b"2024-02-29 0000", b"2024-02-29 00:00:00.1234567", b"2024-02-29 00:00:60",
            )
        ),
        (
            "TIMESTAMP_LTZ(3)",
            b"2024-02-29 00:00:00+08:00",
            "a TIMESTAMP_LTZ as text such as '2020-01-31 23:59:59.123456Z'",
            "b'2024-02-29 00:00:00+08:00'",
        ),
    ],
)  # fmt: skip
def test_dates_and_times_that_do_not_fit_are_refused_with_their_position(
    sql: str, cell: int | bytes, expected: str, got: str
) -> None:
    fine = (
        b"2020-01-31 00:00:00"
        if sql.startswith("TIMESTAMP")
        else b"00:00:00"
        if sql[:4] == "TIME"
        else b"2020-01-31"
    )
    with pytest.raises(UnfitError) as caught:
        points(sql, None, fine if isinstance(cell, bytes) else 0, cell, cell)
    assert (caught.value.position, caught.value.expected, caught.value.got) == (2, expected, got)


def test_points_in_time_accept_small_integers() -> None:
    (column,) = Schema.parse("x TIMESTAMP(6)")
    array = points_in_time(Values(INT8, 2, b"\x7f\xff"), column.type, pa.timestamp("us"))
    assert array.cast(pa.int64()).to_pylist() == [127, -1]
