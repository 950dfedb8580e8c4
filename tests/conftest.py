"""Fixtures of all tests."""

from __future__ import annotations

import ast
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.environment import ENVIRONMENT  # noqa: F401  read before any job runs
from tests.support.leftovers import nothing_left_behind


def _one_at_a_time(parse: Callable[..., Any]) -> Callable[..., Any]:
    lock = threading.RLock()

    @functools.wraps(parse)
    def locked(*args: Any, **kwargs: Any) -> Any:
        with lock:
            return parse(*args, **kwargs)

    return locked


if sys.version_info < (3, 13):
    # Threads share the depth that CPython counts while it makes a syntax tree (python/cpython#106905), and PyFlink makes one for
    # every cell that it collects: "SystemError: AST constructor recursion depth mismatch".
    ast.parse = _one_at_a_time(ast.parse)


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    if any(request.node.get_closest_marker(name) for name in ("process", "flink", "cluster")):
        with nothing_left_behind():
            yield
    else:
        yield
