"""Each check by itself: values come back in their own type, and others are refused with what is
expected.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bridge.exceptions import ConfigurationError
from operators.params import checks


@pytest.mark.parametrize(
    ("check", "value", "kept"),
    [
        (checks.any_text, " ", " "),
        (checks.count(0), np.int32(0), 0),
        (checks.default_environment, 0, 0),
        (checks.files, '["a", "b"]', ["a", "b"]),
        (checks.fraction, 0, 0.0),
        (checks.interval, (1, 2.5), [1.0, 2.5]),
        (checks.network, "10.1.2.3/16", "10.1.0.0/16"),
        (checks.one_of("a", "b"), "b", "b"),
        (checks.positive, np.float32(0.5), 0.5),
        (checks.seconds, 0, 0.0),
        (
            checks.stream_schema_text,
            "ts TIMESTAMP(3), WATERMARK FOR ts AS ts",
            "ts TIMESTAMP(3), WATERMARK FOR ts AS ts",
        ),
        (checks.time_text, "2024-05-31 18:00:00.5", "2024-05-31 18:00:00.5"),
    ],
)
def test_checks_accept_and_convert_good_values(
    check: Callable[[Any], Any], value: Any, kept: Any
) -> None:
    found = check(value)
    assert found == kept and type(found) is type(kept)


@pytest.mark.parametrize(
    ("check", "value", "expected"),
    [
        (checks.any_text, "", "a string that is not empty"),
        (checks.character, "ab", "one character"),
        (checks.count(2), 1, "a whole number of at least 2"),
        (checks.default_environment, False, "0, the one environment of a program"),
        (checks.filled_text, " ", "a string that is not empty"),
        (checks.flag, 1, "True or False"),
        (checks.fraction, 1, "a number from 0 to less than 1"),
        (checks.interval, (2, 1), "two numbers of seconds, the smaller one first"),
        (checks.network, "10.1.2.3.4", "an IPv4 network such as"),
        (checks.one_file, 2, "1: this program writes one file"),
        (checks.one_of("a", "b"), "c", "one of 'a', 'b'"),
        (checks.only_zero, 1, "0"),
        (checks.positive, float("inf"), "a number greater than 0"),
        (checks.seconds, True, "a number of seconds, 0 or more"),
        (checks.some_seconds, 0, "a number of seconds greater than 0"),
        (checks.texts, "a", "a list of strings"),
        (checks.time_text, "noon", "a date and time such as"),
    ],
)
def test_checks_refuse_wrong_values(check: Callable[[Any], Any], value: Any, expected: str) -> None:
    with pytest.raises(ValueError) as raised:
        check(value)
    assert str(raised.value).startswith(expected)


def test_variables_of_akdl_itself_are_refused() -> None:
    given = ["AKDL_TRACEBACK=full", "AKDL_ARCHIVE_RATIO"]
    assert checks.variables(given) == given
    with pytest.raises(ConfigurationError, match="AKDL_TOKEN cannot be set"):
        checks.variables(["AKDL_TOKEN=1"])


def test_variables_are_refused_without_their_values() -> None:
    with pytest.raises(ConfigurationError) as raised:
        checks.variables(["OK=1", "B C=secret"])
    assert "'B C' is not valid" in str(raised.value) and "secret" not in str(raised.value)


@pytest.mark.parametrize("digits", ["5", "500000", "500000999"])
def test_a_time_may_have_any_number_of_digits_after_the_seconds(digits: str) -> None:
    assert checks.read_time(f"2024-05-31 18:00:00.{digits}") == datetime.datetime(
        2024, 5, 31, 18, 0, 0, 500_000
    )
