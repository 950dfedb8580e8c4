"""The memory of this process that rows take on their way goes back to the system when they have passed."""

from __future__ import annotations

import ctypes
import functools
from contextlib import suppress

MAPPED_BYTES = 2 << 20  # above chunks of the usual size, for which it would take 0.1 s of a processor per million rows
_M_MMAP_THRESHOLD = -3  # of malloc.h


@functools.cache
def give_large_blocks_back() -> None:
    """Let blocks of memory from 2 MB on go back to the system as soon as they are free, in this process, from now on.

    The allocator of glibc does so too, but raises its limit to the size of the largest such block that was freed, up to 32 MB.
    Blocks below it lie in the arenas of many threads, which give back little: with rows of 300 KB, 60 to 150 MB were in use
    and 175 to 230 MB free. Other allocators have no such limit.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES)
