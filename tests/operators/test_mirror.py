"""Every module has a test file of its own name, in the same place."""

from __future__ import annotations

import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def missing_tests(package: pathlib.Path, tests: pathlib.Path) -> list[str]:
    """Return the test files that a package should have and has not, relative to the folder of its tests."""
    modules = (path.relative_to(package) for path in package.rglob("*.py") if path.name != "__init__.py")
    wanted = (path.with_name(f"test_{path.name}") for path in modules)
    return sorted(str(path) for path in wanted if not (tests / path).is_file())


@pytest.mark.parametrize("package", ["operators"])
def test_every_module_has_a_test_file(package):
    assert missing_tests(ROOT / package, ROOT / "tests" / package) == []


def test_a_module_without_tests_is_found(tmp_path):
    for path in ("p/__init__.py", "p/a.py", "p/b.pyi", "p/room/__init__.py", "p/room/c.py", "tests/test_c.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    assert missing_tests(tmp_path / "p", tmp_path / "tests") == ["room/test_c.py", "test_a.py"]
