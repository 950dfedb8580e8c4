"""Locks on files, for what the programs of one host share. The kernel opens them when their holder ends, however it ends."""

import fcntl
import os


def try_lock(fd: int) -> bool:
    """Lock a file if nobody has it. Two descriptors of one process conflict as those of two processes do."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_linked(fd: int) -> bool:
    """Whether a lock file is the one that others would open now, and not one that was removed meanwhile."""
    return os.fstat(fd).st_nlink > 0
