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


@pytest.mark.parametrize("package", ["akdl", *PACKAGES])
def test_no_module_is_long(package: str) -> None:
    """Past some hundred lines a module has a second subject."""
    written = [module for module in modules(package) if not module.name.endswith("_pb2.py")]
    lengths = {str(module): len((ROOT / module).read_text(encoding="utf-8").splitlines()) for module in written}
    assert not {module: length for module, length in lengths.items() if length > 400}
