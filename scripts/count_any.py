"""Hold the number of `Any` in the annotations of akdl, bridge and operators: `make check`
runs it.
"""

from __future__ import annotations

import ast
import pathlib
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ("akdl", "bridge", "operators")
MOST = 1014
"""The number today. It may only fall."""


def annotations(source: str) -> Iterator[ast.expr]:
    """Yield the annotations of arguments, results and variables."""
    for node in ast.walk(ast.parse(source)):
        found = (
            node.returns
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            else getattr(node, "annotation", None)
        )
        if found is not None:
            yield found


def count(source: str) -> int:
    """Return the number of `Any` in annotations, inside other types too."""
    names = (each for annotation in annotations(source) for each in ast.walk(annotation))
    return sum(isinstance(each, ast.Name) and each.id == "Any" for each in names)


def verdict(found: int, most: int) -> tuple[int, str]:
    """Return the exit code and a line about a number."""
    if found > most:
        return (
            1,
            f"{found} `Any` in annotations, at most {most} are allowed: give the new ones a type",
        )
    if found < most:
        return (
            0,
            (
                f"{found} `Any` in annotations: lower MOST in scripts/count_any.py from {most} to"
                f" {found}"
            ),
        )
    return 0, f"{found} `Any` in annotations"


def main() -> int:
    """Count, and print the verdict."""
    files = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    code, line = verdict(sum(count(path.read_text(encoding="utf-8")) for path in files), MOST)
    print(line)
    return code


if __name__ == "__main__":
    sys.exit(main())
