"""Columns of a message that contradict themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from akdl.wire import BOOL, BYTES, FLOAT64, INT64, Column
from bridge.codec.values import UnfitError, read_offsets, read_values


def offsets(*numbers: int) -> bytes:
    return np.array(numbers, "<i4").tobytes()


@pytest.mark.parametrize(
    ("column", "expected", "got"),
    [
        ({"type": INT64, "values": bytes(15)}, "whole numbers of bytes", "15 bytes"),
        ({"type": INT64, "values": bytes(8)}, "2 values", "1"),
        ({"type": FLOAT64, "values": bytes(24)}, "2 values", "3"),
        ({"type": BOOL, "values": bytes(2)}, "2 values", "16"),
        ({"type": BOOL}, "2 values", "0"),
        ({"type": BYTES}, "2 values", "0 bytes of offsets"),
        ({"type": BYTES, "value_offsets": offsets(0, 0)}, "2 values", "8 bytes"),
        ({"type": BYTES, "value_offsets": offsets(0, 1, 1), "values": b"ab"}, "1 bytes", "2"),
        (
            {"type": BYTES, "value_offsets": offsets(0, 9, 2), "values": b"ab"},
            "offsets of values that begin at 0",
            "other offsets",
        ),
        (
            {"type": BYTES, "value_offsets": offsets(1, 1, 2), "values": b"ab"},
            "offsets of values that begin at 0",
            "other offsets",
        ),
        (
            {"type": BYTES, "value_offsets": offsets(0, 1, 2), "values": b"ab"},
            "no bytes where a value is null",
            "some",
        ),
    ],
)
def test_lengths_that_do_not_agree_are_refused(
    column: dict[str, Any], expected: str, got: str
) -> None:
    with pytest.raises(UnfitError) as caught:
        read_values(Column(**column), 2, b"\x01" if expected.startswith("no bytes") else b"")
    assert caught.value.position == 0
    assert caught.value.expected.startswith(expected)
    assert caught.value.got.startswith(got)


def test_read_offsets_returns_offsets_and_refuses_missing_ones() -> None:
    assert read_offsets(offsets(0, 0, 3), 2, "arrays").tolist() == [0, 0, 3]
    with pytest.raises(UnfitError):
        read_offsets(b"", 0, "arrays")


def test_values_at_nulls_are_not_checked() -> None:
    values = read_values(Column(type=INT64, values=np.array([7, 5, 9]).tobytes()), 3, b"\x06")
    values.check_range(values.numbers, 0, 9)
    with pytest.raises(UnfitError) as caught:
        values.check_range(values.numbers, 0, 6)
    assert (caught.value.position, caught.value.expected, caught.value.got) == (
        2,
        "a value from 0 to 6",
        "9",
    )
