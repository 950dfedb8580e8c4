"""Locks on files shared by the programs of one host. The kernel releases a lock when its holder ends, however it ends."""

import fcntl


def try_lock(fd: int) -> bool:
    """Lock a file if it is free. Two descriptors of one process conflict as descriptors of two processes do."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
