"""Fixtures of all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.environment import ENVIRONMENT  # noqa: F401  read before any job runs
from tests.support.leftovers import nothing_left_behind


@pytest.fixture(autouse=True)
def _leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    if any(request.node.get_closest_marker(name) for name in ("process", "flink", "cluster")):
        with nothing_left_behind():
            yield
    else:
        yield
