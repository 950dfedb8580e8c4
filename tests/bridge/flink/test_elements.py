"""Kinds of elements, in Python and in Java."""

from __future__ import annotations

import pathlib
import re

import pytest

from bridge.flink import elements
from bridge.flink.elements import FIRST_TIME, LAST_TIME, Element, time_bytes, time_of


@pytest.mark.parametrize("time", [FIRST_TIME, -1, 0, 1_700_000_000_000, LAST_TIME])
def test_times_come_back(time: int) -> None:
    assert time_of(time_bytes(time)) == time and len(time_bytes(time)) == 8


@pytest.mark.parametrize("name", ["RowsToArrow", "ArrowToRows"])
def test_java_has_the_same_numbers(name: str) -> None:
    text = pathlib.Path(elements.__file__).with_name(f"{name}.java").read_text(encoding="utf-8")
    found = re.findall(r"static final \w+ (\w+) = (?:Integer.valueOf\()?(\d+)\)?;", text)
    kinds = {kind: int(number) for kind, number in found if kind in Element.__members__}
    assert kinds == {kind: Element[kind] for kind in kinds} and len(kinds) >= 3
