"""Each fault on the page has a test that proves what the page says."""

from __future__ import annotations

import ast
import functools
import re

from tests.support.installs import ROOT

PAGE = ROOT / "docs" / "reliability.md"
FAULTS = 90


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in cells if row[0] != "fault" and not row[0].startswith("---")]


@functools.cache
def known_tests(path: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of the tests in a file, and all its strings, among which are the names of cases."""
    nodes = list(ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))))
    names = {node.name for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
    return frozenset(names), frozenset(
        node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def test_every_fault_has_a_test() -> None:
    missing = []
    for row in rows():
        assert len(row) == 5 and all(row), f"a row of the page lacks a cell: {row}"
        found = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)(?:\[(.+)\])?`", row[4])
        assert found is not None, f"no test is named: {row[4]}"
        path, name, case = found.groups()
        if not (ROOT / path).is_file():
            missing.append(row[4])
            continue
        names, cases = known_tests(path)
        if name not in names or (case is not None and case not in cases):
            missing.append(row[4])
    assert missing == []


def test_there_are_many_and_none_is_there_twice() -> None:
    faults = [(row[0], row[4]) for row in rows()]
    assert len(faults) >= FAULTS
    assert len({fault for fault, _ in faults}) == len(faults)
    assert len({test for _, test in faults}) == len(faults), "one test proves one fault"
