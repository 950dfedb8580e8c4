"""Locks between programs of one host."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from akdl.storage.locked_folder import try_lock


@contextmanager
def opened(path: pathlib.Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        yield fd
    finally:
        os.close(fd)


def test_two_descriptors_of_one_process_conflict(tmp_path: pathlib.Path) -> None:
    with opened(tmp_path / "lock") as first, opened(tmp_path / "lock") as second:
        assert try_lock(first) and not try_lock(second)
        assert try_lock(first), "who has the lock may ask again"


def test_a_lock_ends_with_its_descriptor(tmp_path: pathlib.Path) -> None:
    with opened(tmp_path / "lock") as first:
        assert try_lock(first)
    with opened(tmp_path / "lock") as second:
        assert try_lock(second)


def test_errors_other_than_a_conflict_are_raised(tmp_path: pathlib.Path) -> None:
    with opened(tmp_path / "lock") as fd:
        pass
    with pytest.raises(OSError, match="Bad file descriptor"):
        try_lock(fd)


HOLDER = """
import os, sys
from akdl.storage.locked_folder import try_lock
print(try_lock(os.open(sys.argv[1], os.O_RDWR)), flush=True)
sys.stdin.read()
"""


@pytest.mark.process
def test_a_lock_ends_with_its_process_even_when_that_is_killed(tmp_path: pathlib.Path) -> None:
    with opened(tmp_path / "lock") as fd:
        command = [sys.executable, "-c", HOLDER, str(tmp_path / "lock")]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder:
            try:
                assert holder.stdout is not None and holder.stdout.readline() == "True\n"
                assert not try_lock(fd)
            finally:
                holder.kill()
                holder.wait()
        assert try_lock(fd)
