"""Tests are written in one way: functions with annotations, and no classes of tests."""

from __future__ import annotations

import ast
import collections
import functools
import pathlib

ROOT = pathlib.Path(__file__).parents[1]


@functools.cache  # not read when the module is imported, which each process of a run does
def trees() -> dict[pathlib.Path, ast.Module]:
    return {
        path: ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted((ROOT / "tests").rglob("*.py"))
    }


def at(path: pathlib.Path, node: ast.ClassDef | ast.FunctionDef) -> str:
    return f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


def is_annotated(function: ast.FunctionDef) -> bool:
    arguments = function.args
    named = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    bare = [one.arg for one in named if one is not None and one.annotation is None]
    return function.returns is not None and not set(bare) - {"self", "cls"}


def test_tests_are_functions_without_classes() -> None:
    classes = [
        at(path, node)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test")
    ]
    assert not classes, "classes of tests; expected functions of the module"


def test_every_function_is_annotated() -> None:
    bare = [
        at(path, node)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and not is_annotated(node)
    ]
    assert not bare, "functions without annotations of all arguments and of the result"


def test_no_test_hides_another_one() -> None:
    twice = {}
    for path, tree in trees().items():
        names = collections.Counter(
            node.name for node in tree.body if isinstance(node, ast.FunctionDef)
        )
        hidden = [name for name, times in names.items() if times > 1]
        if hidden:
            twice[str(path.relative_to(ROOT))] = hidden
    assert not twice, "functions of one name in a module: only the last one is run"
