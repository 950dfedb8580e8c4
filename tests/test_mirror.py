"""Every module has a test file of its own name: package/room/module.py is tested by tests/package/room/test_module.py."""

from __future__ import annotations

import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGES = ["bridge", "operators"]


def modules(package: str) -> list[pathlib.Path]:
    return sorted(path.relative_to(ROOT) for path in (ROOT / package).rglob("*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_has_a_test_file_of_its_name(package: str) -> None:
    expected = {module: ROOT / "tests" / module.with_name(f"test_{module.name}") for module in modules(package)}
    assert len(expected) > 5, f"no modules in {package}"
    missing = {str(module): str(test.relative_to(ROOT)) for module, test in expected.items() if not test.is_file()}
    assert not missing, "modules without a test file of their name"
