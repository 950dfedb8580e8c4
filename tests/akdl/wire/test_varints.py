"""Varints of numbers, and of whole arrays at one width."""

from __future__ import annotations

import numpy as np
import pytest

from akdl.wire.byte_arrays import padded, varint, width_of

EDGES = [0, 1, 127, 128, 300, 2**14 - 1, 2**14, 2**31, 2**63 - 1]


def decoded(encoded: list[int]) -> int:
    assert [byte >> 7 for byte in encoded] == [1] * (len(encoded) - 1) + [0], (
        "the last byte has no continuation bit"
    )
    return sum((byte & 0x7F) << 7 * place for place, byte in enumerate(encoded))


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (300, b"\xac\x02"),
        (2**14, b"\x80\x80\x01"),
    ],
)
def test_varint_encodes_numbers_in_groups_of_seven_bits(value: int, encoded: bytes) -> None:
    assert varint(value) == encoded


@pytest.mark.parametrize("value", EDGES)
def test_width_is_that_of_the_varint(value: int) -> None:
    assert width_of(np.array([0, value])) == len(varint(value))


def test_width_of_no_numbers_is_one() -> None:
    assert width_of(np.zeros(0, np.int64)) == 1


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("value", EDGES)
def test_padded_varints_have_one_width_and_the_same_value(value: int, extra: int) -> None:
    values = np.array([0, value // 2, value], np.int64)
    width = width_of(values) + extra
    rows = padded(values, width)
    assert rows.shape == (3, width) and rows.dtype == np.uint8
    assert [decoded(row.tolist()) for row in rows] == values.tolist()
