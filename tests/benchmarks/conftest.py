"""Benchmarks are programs beside each other, and import each other by their bare names."""

from __future__ import annotations

import importlib
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark_module(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Import a module of the benchmarks; all of them are forgotten after the test."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in [path.stem for path in BENCHMARKS.glob("*.py")]:
        sys.modules.pop(name, None)
