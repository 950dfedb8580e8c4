"""Cells of .ak files; that they are those of Alink's own files is in test_ak_file.py."""

from __future__ import annotations

import decimal
import struct

import pytest

from akdl.wire.column_type import Kind
from operators.alink.ak_cells import (
    UNREADABLE,
    cell_reader,
    cell_writer,
    digits_of,
    read_dense_vector,
)
from operators.alink.java_times import JavaClock, zone_of

CLOCK = JavaClock(zone_of("UTC"))


@pytest.mark.parametrize(
    ("number", "octets"),
    [
        ("0", "00000001 00000000"),
        ("1", "00000002 00000000"),
        ("10", "00000003 00000000"),
        ("0.00", "00000001 00000002"),
        ("1.50", "00000006 0096 00000002"),
        ("1E+2", "00000002 fffffffe"),
        ("-128", "00000005 80 00000000"),
        ("128", "00000006 0080 00000000"),
        (
            "1234567890123456789.012345678901234567",
            "00000014 00edc9c8e4bc24b7fa4e1f4ea9e7f21f87 00000012",
        ),
    ],
)
def test_decimals_are_written_and_read_as_in_alink(number: str, octets: str) -> None:
    exact = decimal.Decimal(number)
    written = cell_writer(Kind.DECIMAL, CLOCK)(exact)
    if len(number) < 30:
        assert written == bytes.fromhex(octets)
    assert cell_reader(Kind.DECIMAL, CLOCK)(written, 0) == (exact, len(written))
    assert cell_reader(Kind.DECIMAL, CLOCK)(written, 0)[0].as_tuple() == exact.as_tuple()


@pytest.mark.parametrize(
    ("kind", "octets", "words"),
    [
        (Kind.DECIMAL, struct.pack(">i", 5_000_000) + bytes(10), "ends inside a DECIMAL"),
        (
            Kind.DECIMAL,
            struct.pack(">i", 100) + bytes(200),
            "a DECIMAL has 96 bytes; akdl reads at most 38 digits",
        ),
        (
            Kind.TIMESTAMP,
            struct.pack(">qi", 123, 123_456_789),
            "has 123456789 nanoseconds; akdl reads at most TIMESTAMP",
        ),
        (Kind.TIMESTAMP, struct.pack(">qi", 5, 123_000_000), "not a valid TIMESTAMP"),
        (Kind.DATE, struct.pack(">q", 2**62), "outside the years 1 to 9999"),
        (Kind.STRING, b"\xff" * 20, "a length has more than five bytes"),
        (Kind.STRING, b"\x05ab", "ends inside a string"),
        (Kind.BYTES, struct.pack(">i", -1), "ends inside bytes"),
    ],
)
def test_bytes_without_a_cell_are_refused(kind: Kind, octets: bytes, words: str) -> None:
    with pytest.raises(UNREADABLE, match=words):
        cell_reader(kind, CLOCK)(octets, 0)


def test_dense_vectors_are_read_as_text() -> None:
    octets = b"\2\0" + struct.pack(">i2d", 2, 0.1, -3.0)
    assert read_dense_vector(b"x" + octets, 1) == ("0.1 -3.0", 23)
    assert read_dense_vector(b"\1rest", 0) == (None, 1)
    odd = b"\2\0" + struct.pack(">i3d", 3, float("nan"), float("-inf"), float("inf"))
    assert read_dense_vector(odd, 0)[0] == "NaN -Infinity Infinity", "as Java writes and reads them"
    for damaged in (
        b"\4" + octets[1:],
        octets[:1] + b"\1" + octets[2:],
        octets[:-1],
        b"\2\0\x7f\xff\xff\xff",
    ):
        with pytest.raises(UNREADABLE):
            read_dense_vector(damaged, 0)


@pytest.mark.parametrize(
    ("numbers", "digits"),
    [
        ([], (0, 0)),
        (["0", "0.00"], (0, 0)),
        (["12.50", "-0.001"], (2, 3)),
        (["1E+30"], (31, 0)),
        ([decimal.Decimal((0, (1,), -(2**31)))], (0, 2**31)),
        ([decimal.Decimal((0, (1,), 2**31))], (2**31 + 1, 0)),
    ],
)
def test_digits_of_finds_the_most_digits_on_both_sides_of_the_point(
    numbers: list[str], digits: tuple[int, int]
) -> None:
    assert digits_of(map(decimal.Decimal, numbers)) == digits
