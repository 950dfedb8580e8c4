"""Locks on files shared by the programs of one host.

The kernel releases a lock when its holder ends, however it ends, so no lock is ever left behind.
"""

import fcntl


def try_lock(fd: int) -> bool:
    """Lock a file if it is free.

    `flock` and not `fcntl`, because locks of `fcntl` belong to the process: two descriptors of one
    process would not conflict, and closing one of them would release the lock of the other.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
