"""Memory of large blocks goes back to the system, also where larger ones were freed before."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FREED = """
import ctypes, sys
from bridge.host.allocator import give_large_blocks_back

class Used(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena a b c d e f g free h".split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Used
if sys.argv[1] == "told":
    give_large_blocks_back()
    give_large_blocks_back(int(sys.argv[2]), 1_200_000)
del bytearray(30_000_000)[:]  # glibc raises its limit then
size = int(sys.argv[3])
blocks = [bytes(size) for _ in range(40_000_000 // size)]
kept = [bytes(5000)]  # above them, so that the end of the heap is in use
del blocks
print(libc.mallinfo2().free // 1_000_000)
"""


@pytest.mark.process
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps them")
@pytest.mark.parametrize(
    ("told", "rows", "size", "free_mb"),
    [
        ("untold", 4, 4_000_000, range(30, 50)),
        ("told", 20_000, 4_000_000, range(5)),
        ("told", 4, 1_000_000, range(5)),
    ],
)
def test_freed_large_blocks_are_returned_to_the_system(
    told: str, rows: int, size: int, free_mb: range
) -> None:
    arguments = [told, str(rows), str(size)]
    done = subprocess.run(
        [sys.executable, "-c", FREED, *arguments], check=True, capture_output=True, text=True
    )
    assert int(done.stdout) in free_mb
