"""The count of `Any`, and its verdict."""

from __future__ import annotations

import pytest

from scripts import count_any


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("def f(a: Any, *b: list[Any], **c: int) -> dict[str, Any]: ...", 3),
        ("class A:\n    x: Any = 1\n    async def f(self) -> Any: ...", 2),
        ("Array = Any\nf: Array\nprint(Any)", 0),
    ],
)
def test_annotations_alone_count(source: str, number: int) -> None:
    assert count_any.count(source) == number


@pytest.mark.parametrize(
    ("found", "code", "line"),
    [
        (6, 1, "6 `Any` in annotations, at most 5 are allowed: give the new ones a type"),
        (5, 0, "5 `Any` in annotations"),
        (4, 0, "4 `Any` in annotations: lower MOST in scripts/count_any.py from 5 to 4"),
    ],
)
def test_the_number_may_only_fall(found: int, code: int, line: str) -> None:
    assert count_any.verdict(found, 5) == (code, line)
