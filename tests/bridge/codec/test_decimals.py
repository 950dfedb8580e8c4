"""Decimal numbers as text; Arrow's own text and parser are not always right."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pytest

from akdl.wire import BYTES
from bridge.codec.decimals import from_text, plain_text
from bridge.codec.values import UnfitError, Values


def values(*texts: bytes) -> Values:
    offsets = np.cumsum([0, *map(len, texts)], dtype="<i4")
    return Values(BYTES, len(texts), b"".join(texts), offsets)


@pytest.mark.parametrize(
    ("precision", "scale", "texts"),
    [
        (
            10,
            2,
            [
                "0.00",
                "0.05",
                "-0.05",
                "-0.50",
                "0.99",
                "-1.00",
                "10.00",
                "-99999999.99",
                "99999999.99",
                None,
            ],
        ),
        (3, 3, ["0.000", "-0.001", "0.999", "-0.100"]),
        (5, 0, ["0", "-1", "99999"]),
        (18, 18, ["0.000000000000000001", "-0.999999999999999999"]),
        (19, 2, ["12345678901234567.89", "-0.01", "0.00"]),
        (38, 18, ["0.000000000000000000", "0.000000100000000000"]),
        (
            38,
            38,
            [
                "0.00000010000000000000000000000000000000",
                "-0.99999999999999999999999999999999999999",
            ],
        ),
        (38, 0, ["9" * 38, "-" + "9" * 38]),
        (5, 2, [None, None]),
    ],
)
def test_plain_text_writes_decimals_without_exponents(
    precision: int, scale: int, texts: list[str | None]
) -> None:
    decimal_type = pa.decimal128(precision, scale)
    numbers = pa.array(
        [None if text is None else decimal.Decimal(text) for text in texts], decimal_type
    )
    assert plain_text(numbers).to_pylist() == texts
    assert plain_text(numbers.slice(1)).to_pylist() == texts[1:]
    assert plain_text(numbers.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize(
    ("precision", "scale", "text", "expected"),
    [
        (5, 2, b"1.5", "1.50"),
        (5, 2, b"-.5", "-0.50"),
        (5, 2, b"1.", "1.00"),
        (5, 2, b"+1.500", "1.50"),
        (5, 2, b" 1.5\n", "1.50"),
        (5, 2, b"000000000000000000000000000000000000000000001.5", "1.50"),
        (3, 3, b"1e-3", "0.001"),
        (5, 0, b"1E+3", "1000"),
        (38, 0, b"9" * 38, "9" * 38),
        (38, 10, b"-" + b"9" * 28 + b"." + b"9" * 10, "-" + "9" * 28 + "." + "9" * 10),
    ],
)
def test_from_text_reads_decimals_of_the_column(
    precision: int, scale: int, text: bytes, expected: str
) -> None:
    decimal_type = pa.decimal128(precision, scale)
    for texts in ([text], [b"0", text]):
        numbers = from_text(values(*texts), decimal_type)
        assert numbers.type == decimal_type
        assert numbers[-1].as_py() == decimal.Decimal(expected)


@pytest.mark.parametrize(
    ("precision", "scale", "text", "expected"),
    [
        (5, 2, b"1234.5", "a number of at most 5 digits, 2 of them behind the point"),
        (5, 2, b"1.234", "a number of at most 5 digits, 2 of them behind the point"),
        (5, 2, b"NaN", "a number of at most 5 digits, 2 of them behind the point"),
        (5, 2, b"one", "a decimal number as text"),
        (5, 2, b"", "a decimal number as text"),
        (5, 2, b"\xff", "a decimal number as text"),
        (5, 2, b"1e999", "a decimal number as text"),
        # Arrow 16 takes these, and makes other numbers of them.
        (38, 0, b"99999999999e35", "a number of at most 38 digits, 0 of them behind the point"),
        (38, 38, b"20031001313", "a number of at most 38 digits, 38 of them behind the point"),
        (
            38,
            28,
            b"608250044003034000000410103114",
            "a number of at most 38 digits, 28 of them behind the point",
        ),
    ],
)
def test_text_that_does_not_fit_a_decimal_is_refused(
    precision: int, scale: int, text: bytes, expected: str
) -> None:
    with pytest.raises(UnfitError) as caught:
        from_text(values(b"0", text, b"x"), pa.decimal128(precision, scale))
    assert (caught.value.position, caught.value.expected, caught.value.got) == (
        1,
        expected,
        repr(text),
    )
