"""Memory of rows, which a Python worker frees for the system once the rows have passed, and which a
script keeps for the next ones.

glibc's threads keep freed blocks for later, so a Python worker that once had large rows would keep
their memory.
"""

from __future__ import annotations

import ctypes
import functools
from contextlib import suppress

# Variables of a script's process. With each chunk of rows glibc would give memory back and ask for
# it again, page by page: 43,000 page faults per million rows, and 1,200 with these limits of the
# memory that is kept.
MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(128 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
LARGE_ROW_BYTES = 64 << 10
# Chunks of usual rows are below 2 MB. To map each of them would take 0.1 s per million rows.
_USUAL = 2 << 20
_SMALL = 256 << 10
_M_MMAP_THRESHOLD = -3  # of malloc.h


def give_large_blocks_back(rows: int = 1, size: int = 0) -> None:
    """Let free blocks of 2 MB and more return to the system, or of 256 KB where rows are large.

    glibc would keep up to 32 MB. The setting belongs to the process, so one call is enough, and
    further ones only ask a cache.

    Args:
        rows: Number of rows in a batch.
        size: Bytes of the batch.
    """
    _map_from(_SMALL if size > rows * LARGE_ROW_BYTES else _USUAL)


# Because of the cache, a process that has had large rows stays at the smaller limit.
@functools.cache
def _map_from(size: int) -> None:
    # Other libraries of C, such as musl or that of macOS, have no mallopt.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, size)
