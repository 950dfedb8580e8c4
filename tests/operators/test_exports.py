"""What `from operators import *` gives, and what importing costs."""

from __future__ import annotations

import subprocess
import sys

import operators
from tests.support.leftovers import DEADLINE_S


def test_all_is_sorted_and_complete() -> None:
    seen: dict[str, object] = {}
    exec("from operators import *", seen)
    assert operators.__all__ == sorted(operators.__all__)
    assert set(seen) - {"__builtins__"} == set(operators.__all__)


def test_only_names_of_all_are_public() -> None:
    public = {
        name
        for name, value in vars(operators).items()
        if not name.startswith("_") and callable(value)
    }
    assert public | {"USUAL_NULLS"} == set(operators.__all__)


def test_importing_loads_no_large_package() -> None:
    code = "import sys, operators; print(sorted({'pyflink', 'py4j', 'tensorflow', 'pandas', 'pyarrow.flight'} & set(sys.modules)))"
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
    )
    assert loaded.stdout.strip() == "[]"
