"""Every room has a folder of tests of its name: what package/room does is tested in
tests/package/room.
"""

from __future__ import annotations

import ast
import collections
import pathlib
import tokenize

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ["akdl", "bridge", "operators"]


def modules(package: str) -> list[pathlib.Path]:
    """Return all modules but generated ones."""
    found = (path.relative_to(ROOT) for path in (ROOT / package).rglob("*.py"))
    return sorted(
        path for path in found if path.name != "__init__.py" and not path.name.endswith("_pb2.py")
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_every_room_has_a_folder_of_tests_of_its_name(package: str) -> None:
    rooms = {module.parent for module in modules(package)}
    assert len(rooms) > 5, f"no rooms in {package}"
    missing = {str(room) for room in rooms if not list((ROOT / "tests" / room).glob("test_*.py"))}
    assert not missing, "rooms without a folder of tests of their name"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_of_tests_is_that_of_a_room(package: str) -> None:
    tests = {
        path.parent.relative_to(ROOT / "tests")
        for path in (ROOT / "tests" / package).rglob("test_*.py")
    }
    assert not {str(folder) for folder in tests - {module.parent for module in modules(package)}}, (
        "no room has this name"
    )


_WORDS = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
}


def tokens(path: pathlib.Path) -> int:
    """Size of a module without comments, docstrings and the ends of lines."""
    code = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        node.body[0].lineno
        for node in ast.walk(code)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and ast.get_docstring(node) is not None
    }
    with tokenize.open(path) as file:
        found = [
            each for each in tokenize.generate_tokens(file.readline) if each.type not in _WORDS
        ]
    return sum(not (each.type == tokenize.STRING and each.start[0] in docstrings) for each in found)


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_is_long(package: str) -> None:
    """Past some thousand tokens a module has a second subject. Words with reasons in them cost
    nothing.
    """
    sizes = {str(module): tokens(ROOT / module) for module in modules(package)}
    assert not {module: size for module, size in sizes.items() if size > 3300}


# Modules that users import, and modules that every room of a package needs.
ROOTS = {
    "akdl": {"__main__", "entry", "features", "masking", "near_names", "replay", "runner_commands", "testing", "tf_version", "versions"},
    "bridge": {"exceptions", "interrupts", "schema", "settings", "table_env"},
    "operators": {
        "batch_operator", "keras_sequential", "local_predictor", "model_function", "pipeline", "predict_batch", "predict_function",
        "predict_stream", "script", "stream_operator",
    },
}  # fmt: skip


@pytest.mark.parametrize("package", ROOTS)
def test_root_of_a_package_holds_only_modules_for_other_packages(package: str) -> None:
    assert {module.stem for module in modules(package) if len(module.parts) == 2} == ROOTS[package]


@pytest.mark.parametrize("package", ROOTS)
def test_no_two_modules_of_a_package_share_a_name(package: str) -> None:
    names = collections.Counter(
        module.stem for module in modules(package) if module.stem != "__main__"
    )
    assert not [name for name, count in names.items() if count > 1]


def test_no_two_classes_share_a_name() -> None:
    names: collections.Counter[str] = collections.Counter()
    for module in [module for package in PACKAGES for module in modules(package)]:
        body = ast.parse((ROOT / module).read_text(encoding="utf-8")).body
        names.update(node.name for node in body if isinstance(node, ast.ClassDef))
    assert not [name for name, count in names.items() if count > 1]
