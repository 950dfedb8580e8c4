"""Vectors and tensors as text."""

from __future__ import annotations

import pytest

from bridge.exceptions import ConfigurationError
from operators.alink.tensor_text import read_numbers, tensor_type


@pytest.mark.parametrize(
    ("text", "size", "expected"),
    [
        ("0.5 1", None, [0.5, 1]),
        (" 0.5,1 ", 2, [0.5, 1]),
        ("$4$0:0.5 2:1.0", None, [0.5, 0, 1, 0]),
        ("0:0.5 2:1.0", 3, [0.5, 0, 1]),
        ("$$1:2", 2, [0, 2]),
        ("$3$", None, [0, 0, 0]),
        ("$10000001$", 10_000_001, [0] * 10_000_001),
        ("FLOAT#2,2#1 2 3 4", None, [1, 2, 3, 4]),
        ("", None, []),
    ],
)
def test_read_numbers_reads_vectors_and_tensors_of_alink(
    text: str, size: int | None, expected: list[float]
) -> None:
    assert read_numbers(text, size).tolist() == expected


@pytest.mark.parametrize(
    ("text", "size", "words"),
    [
        ("1:2", None, "has no size: pass `size`"),
        ("$2$2:1", None, "index beyond its size of 2"),
        ("1 2 3", 2, "expected 2 elements, got 3"),
        ("1 x", None, "could not convert"),
        (
            "$200000000$0:1",
            None,
            "has a size of 200000000: pass `size` if more than 10000000 is right",
        ),
        ("$200000000$0:1", 3, "has a size of 200000000"),
    ],
)
@pytest.mark.fault("data", "A sparse vector as text with an absurd size is refused")
def test_text_without_a_vector_is_refused(text: str, size: int | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_numbers(text, size)


@pytest.mark.fault("data", "Whole numbers beyond 53 bits in a tensor as text are exact or refused")
def test_whole_numbers_are_exact() -> None:
    assert read_numbers(f"LONG#2#{2**53 + 1} 7.0", None, "int64").tolist() == [2**53 + 1, 7]
    assert read_numbers(f"$2$1:{2**53 + 1}", None, "int64").tolist() == [0, 2**53 + 1]
    for text, dtype, words in (
        ("1.7", "int32", "1.7 is not a whole number: set tensorDataType to FLOAT"),
        (str(2**31), "int32", "2147483648 does not fit int32"),
        ("nan", "int64", "nan is not a whole number"),
    ):
        with pytest.raises(ValueError, match=words):
            read_numbers(text, None, dtype)


def test_tensor_type_returns_known_types_and_refuses_unknown_ones() -> None:
    assert tensor_type("float") == "FLOAT"
    with pytest.raises(
        ConfigurationError,
        match="expected one of FLOAT, DOUBLE, INT, LONG as tensorDataType, got 'STRING'",
    ):
        tensor_type("STRING")
