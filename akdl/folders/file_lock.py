"""Locks on files shared by the programs of one host. The kernel releases a lock when its holder ends, however it ends."""

import fcntl
import os


def try_lock(fd: int) -> bool:
    """Lock a file if it is free. Two descriptors of one process conflict as descriptors of two processes do."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_linked(fd: int) -> bool:
    """Test if an open lock file still has its path, and was not removed meanwhile."""
    return os.fstat(fd).st_nlink > 0
