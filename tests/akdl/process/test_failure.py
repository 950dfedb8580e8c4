"""Exceptions as data."""

import pytest

from akdl.process.failure import MESSAGE_CHARACTERS, failure_of


class Mute(Exception):
    def __str__(self):
        raise KeyError("no text")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("grün"), "grün"),
        (ValueError("\ud800"), "\\ud800"),
        (Mute(), "(its text cannot be shown: __str__ raised KeyError)"),
    ],
)
def test_any_text_crosses(error, message):
    failure = failure_of(error)
    assert (failure.type, failure.message) == (type(error).__name__, message)
    assert failure.SerializeToString()


def test_the_begin_and_the_end_of_a_long_text_stay():
    failure = failure_of(ValueError("begin" + "x" * 1_000_000 + "end"))
    assert failure.message.startswith("begin") and failure.message.endswith("end")
    assert len(failure.message) < MESSAGE_CHARACTERS + 100
    assert "characters left out" in failure.message and "characters left out" in failure.traceback
