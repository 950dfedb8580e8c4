"""Memory of rows, which this process frees for the system once the rows have passed."""

from __future__ import annotations

import ctypes
import functools
from contextlib import suppress

LARGE_ROW_BYTES = 64 << 10
_USUAL, _SMALL = 2 << 20, 256 << 10  # chunks of usual rows are below 2 MB: mapping them would take 0.1 s per million rows
_M_MMAP_THRESHOLD = -3  # of malloc.h


def give_large_blocks_back(rows: int = 1, size: int = 0) -> None:
    """Return free blocks from 2 MB on to the system, or from 256 KB on where rows are large; glibc would keep up to 32 MB."""
    _map_from(_SMALL if size > rows * LARGE_ROW_BYTES else _USUAL)


@functools.cache  # so a process that has had large rows stays with the smaller limit
def _map_from(size: int) -> None:
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, size)
