"""A folder on disk, and one in a storage of fsspec."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import fsspec
import pytest


@pytest.fixture(params=["disk", "storage"])
def root(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[str]:
    """A folder with nothing in it."""
    if request.param == "disk":
        yield str(tmp_path)
        return
    memory = fsspec.filesystem("memory")
    memory.mkdir("/root")
    yield "memory://root"
    memory.rm("/root", recursive=True)
