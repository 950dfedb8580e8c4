"""Page of the tested faults, from the tests with the marker `fault`."""

from __future__ import annotations

import ast
import pathlib
from collections import defaultdict
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]


def page() -> Iterator[str]:
    """Text of the page, in parts."""
    yield (
        "# Tested faults\n\nTests provoke each of these faults, with real processes, disks,"
        " networks and Flink clusters. "
    )
    yield "[Reliability](../reliability.md) says what a user sees and can set.\n\n"
    subjects: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for subject, line in _faults(ast.parse(path.read_text(encoding="utf-8"))):
            subjects[subject].append(f"- {line} (`{path.relative_to(ROOT)}`)\n")
    for subject, lines in subjects.items():
        yield f"## {subject.capitalize()}\n\n{''.join(lines)}\n"


def _faults(module: ast.Module) -> Iterator[tuple[str, str]]:
    for test in module.body:
        if isinstance(test, ast.FunctionDef):
            marks = {
                ast.unparse(mark.func): mark.args
                for mark in test.decorator_list
                if isinstance(mark, ast.Call)
            }
            if "pytest.mark.fault" in marks:
                subject, *words = map(ast.literal_eval, marks["pytest.mark.fault"])
                sentence = (
                    words[0] if words else test.name[len("test_") :].replace("_", " ").capitalize()
                )
                yield subject, f"{sentence}{_cases(*marks.get('pytest.mark.parametrize', ()))}."


def _cases(names: ast.expr | None = None, values: ast.expr | None = None) -> str:
    """Values of a parameter `fault`, where these are words."""
    if names is None or not isinstance(values, ast.List) or "'fault'" not in ast.unparse(names):
        return ""
    cases = []
    for case in values.elts:
        # `pytest.param(...)`, a tuple, or one value
        given = case.args if isinstance(case, ast.Call) else getattr(case, "elts", [case])
        cases.append(ast.literal_eval(given[0]))
    return (
        ": " + ", ".join(case.replace("_", " ") for case in cases)
        if all(map(str.isidentifier, cases))
        else ""
    )
