"""Locks on files, for what the programs of one host share. The kernel opens them when their holder ends, however it ends."""

from __future__ import annotations

import fcntl


def try_lock(fd: int) -> bool:
    """Lock a file if nobody has it. Two descriptors of one process conflict as those of two processes do."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
