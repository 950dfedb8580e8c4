from __future__ import annotations

import pytest

from akdl.tf_version import parse_version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.15.5", (1, 15, 5)),
        ("2.16.0-rc1", (2, 16, 0)),
        ("2.9", (2, 9)),
        ("2.18.0.dev20240901", (2, 18, 0)),
    ],
)
def test_parse_version_returns_the_numbers_of_a_release(
    text: str, version: tuple[int, ...]
) -> None:
    assert parse_version(text) == version


def test_parse_version_refuses_text_without_a_number() -> None:
    with pytest.raises(ValueError, match="expected a version number, got 'unknown'"):
        parse_version("unknown")
