"""The errors on the page are errors of the code."""

from __future__ import annotations

import ast
import re

from tests.support.installs import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"


def texts() -> list[str]:
    """Return the strings of the code with `…` for what is filled in."""
    found = []
    for package in ("akdl", "bridge", "operators"):
        for path in (ROOT / package).rglob("*.py"):
            if not path.name.endswith("_pb2.py"):
                found += [
                    text_of(node) for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                ]
    return [text for text in found if text]


def text_of(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "…" for part in node.values)
    return ""


def test_errors_on_the_page_exist_in_the_code() -> None:
    rows = [
        line.split(" | ")[0].strip("|` ")
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    known = texts()
    assert len(rows) >= 50
    patterns = {
        row: re.compile(".*".join(map(re.escape, row.split("…"))), re.DOTALL) for row in rows
    }
    assert [
        row for row, pattern in patterns.items() if not any(pattern.search(text) for text in known)
    ] == []
    assert len(set(rows)) == len(rows)
