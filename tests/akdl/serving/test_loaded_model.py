"""Errors of prediction."""

from __future__ import annotations

import pytest

from akdl.serving.loaded_model import RowsError, ServingError, SignatureError


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([2], "row 2: bad"),
        ([0, 7], "row 0: bad; row 7: bad"),
        (range(20), "row 0: bad; row 1: bad; row 2: bad; row 3: bad; row 4: bad; and 15 more rows"),
    ],
)
def test_the_first_bad_rows_are_named_and_the_others_counted(rows: list[int], text: str) -> None:
    error = RowsError((row, "bad") for row in rows)
    assert str(error) == text and [row for row, _ in error.bad] == list(rows)


def test_errors_of_models_are_value_errors() -> None:
    assert issubclass(RowsError, ServingError) and issubclass(SignatureError, ServingError)
    assert issubclass(ServingError, ValueError)
