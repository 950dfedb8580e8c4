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
del bytearray(30_000_000)[:]  # glibc raises its limit then
blocks = [bytes(4_000_000) for _ in range(10)]
kept = [bytes(5000)]  # above them, so that the end of the heap is in use
del blocks
print(libc.mallinfo2().free // 1_000_000)
"""


@pytest.mark.process
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps them")
@pytest.mark.parametrize("told, free_mb", [("untold", range(30, 50)), ("told", range(5))])
def test_large_blocks_go_back(told: str, free_mb: range) -> None:
    done = subprocess.run([sys.executable, "-c", FREED, told], check=True, capture_output=True, text=True)
    assert int(done.stdout) in free_mb
