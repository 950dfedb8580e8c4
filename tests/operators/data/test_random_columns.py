"""Distributions of random columns: how they are read, and what they draw."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from operators.data.sources import expression, poisson, rate_of, read_distributions

NAMES = ["a", "b"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("a:uniform(0,1)", {"a": ("uniform", [0, 1], 0)}),
        (
            " a : gauss( 0 , 1.5 , nullper=0.1 ) ; b:poisson(3);",
            {"a": ("gauss", [0, 1.5], 0.1), "b": ("poisson", [3], 0)},
        ),
        ("b:weight_set(1,0.3,2,0.7)", {"b": ("weight_set", [1, 0.3, 2, 0.7], 0)}),
        ("a:uniform_open(-1e3,+2)", {"a": ("uniform_open", [-1000, 2], 0)}),
        ("a:poisson(3,nullper=0.25)", {"a": ("poisson", [3], 0.25)}),
    ],
)
def test_distributions_of_random_columns_are_parsed(
    text: str, expected: dict[str, tuple[str, Any, float]]
) -> None:
    assert read_distributions(text, NAMES) == expected


@pytest.mark.parametrize(
    "text",
    [
        "c:uniform(0,1)", "a", "a:uniform", "a:uniform(0)", "a:normal(0,1)", "a:gauss(0,x)", "a:poisson(-1)",
        "a:weight_set(1,0.5,2)", "a:weight_set(1,0)", "a:uniform(0,1,nullper=2)",
    ],
)  # fmt: skip
def test_malformed_distributions_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="'outputColConfs': expected .*, got "):
        read_distributions(text, NAMES)


def test_each_expression_draws_its_own_numbers() -> None:
    draws = []
    expression(("gauss", [0.0, 1.0], 0.5), draws)
    expression(None, draws)
    assert draws == ["u0", "u1", "u2", "u3"]


def test_probabilities_of_poisson_have_sum_1_and_the_given_mean() -> None:
    probabilities = poisson(2.5)
    assert sum(probabilities) == pytest.approx(1)
    assert sum(k * p for k, p in enumerate(probabilities)) == pytest.approx(2.5)


@pytest.mark.parametrize(
    ("seconds", "rate"),
    [
        (0.01, 100),
        (1 / 3, 3),
        (2.5, Fraction(2, 5)),
        (1000, Fraction(1, 1000)),
        (1500, Fraction(1, 1500)),
        (2500.4, Fraction(1, 2500)),
        (86_400, Fraction(1, 86_400)),
    ],
)
def test_rows_of_slow_and_fast_streams_come_at_their_rate(
    seconds: float, rate: Fraction | int
) -> None:
    assert rate_of(Fraction(seconds)) == rate
