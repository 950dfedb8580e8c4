"""Vectors and tensors as text."""

from __future__ import annotations

import pytest

from bridge.exceptions import ConfigurationError
from operators.conversions import read_numbers, tensor_type


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        ("0.5 1", None, [0.5, 1]),
        (" 0.5,1 ", 2, [0.5, 1]),
        ("$4$0:0.5 2:1.0", None, [0.5, 0, 1, 0]),
        ("0:0.5 2:1.0", 3, [0.5, 0, 1]),
        ("$$1:2", 2, [0, 2]),
        ("$3$", None, [0, 0, 0]),
        ("FLOAT#2,2#1 2 3 4", None, [1, 2, 3, 4]),
        ("", None, []),
    ],
)
def test_reading(text: str, size: int | None, expected: list[float]) -> None:
    assert read_numbers(text, size).tolist() == expected


@pytest.mark.parametrize(
    ("text", "size", "words"),
    [
        ("1:2", None, "does not tell its size: give `size`"),
        ("$2$2:1", None, "index outside its size of 2"),
        ("1 2 3", 2, "has 3 elements, expected 2"),
        ("1 x", None, "could not convert"),
    ],
)
def test_text_that_is_no_vector(text: str, size: int | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_numbers(text, size)


def test_types() -> None:
    assert tensor_type("float") == "FLOAT"
    with pytest.raises(ConfigurationError, match="expected one of FLOAT, DOUBLE, INT, LONG as tensorDataType, got 'STRING'"):
        tensor_type("STRING")
