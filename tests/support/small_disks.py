"""Small file systems in memory, to be filled by tests; made by root on Linux only."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def small_disk(folder: pathlib.Path, *options: str) -> Iterator[pathlib.Path]:
    """Mount a tmpfs with options such as "size=1m" or "nr_inodes=10"; skip the test where that is
    forbidden.
    """
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("only root may mount a tmpfs, on Linux")
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", ",".join(["mode=700", *options]), "tmpfs", folder],
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def fill(folder: pathlib.Path) -> None:
    """Write until there is no room."""
    with open(folder / "filling", "wb", buffering=0) as file:
        for size in (1 << 16, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                pass
