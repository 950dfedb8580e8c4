"""The memory of this process that rows take on their way goes back to the system when they have passed."""

from __future__ import annotations

import ctypes
import functools
from contextlib import suppress

LARGE_ROW_BYTES = 64 << 10
_USUAL, _SMALL = 2 << 20, 256 << 10  # chunks of usual rows lie below 2 MB: mapping them takes 0.1 s per million rows
_M_MMAP_THRESHOLD = -3  # of malloc.h


def give_large_blocks_back(rows: int = 1, size: int = 0) -> None:
    """Let blocks of memory go back to the system as soon as they are free, in this process, from now on.

    These are blocks from 2 MB on, and from 256 KB on once rows of more than 64 KB have passed. The allocator of glibc does so
    too, but raises its limit to the size of the largest such block that was freed, up to 32 MB. Blocks below it lie in the
    arenas of many threads, which give back little: with rows of 300 KB, 60 to 150 MB were in use and 175 to 230 MB free. Other
    allocators have no such limit.
    """
    _map_from(_SMALL if size > rows * LARGE_ROW_BYTES else _USUAL)


@functools.cache  # so a process that has had large rows stays with the smaller limit
def _map_from(size: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, size)
