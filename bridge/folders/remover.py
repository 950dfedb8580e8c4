"""Small processes that remove a folder once no process holds its lock any more.

Exit handlers do not run in a process that is killed, as Flink kills its workers. So another
process, in a session of its own, waits for the lock, which the kernel frees after any death.
"""

from __future__ import annotations

import subprocess
import sys
import threading

from akdl.storage.locked_folder import LOCK

# One starts with each script, so it imports only modules that every Python has loaded anyway: 14 ms
# instead of 35. It ignores the signals that end the programs of a terminal. The folder is renamed
# before it is removed, because another process may make it again at any moment.
_WAIT = """
import fcntl, os, signal, sys
for each in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(each, signal.SIG_IGN)
folder, path = sys.argv[1:]
lock = os.open(path, os.O_RDWR)
fcntl.flock(lock, fcntl.LOCK_EX)
if os.path.samestat(os.fstat(lock), os.stat(path)):
    removed = f"{folder}-{os.getpid()}"
    os.rename(folder, removed)
    os.execvp("rm", ["rm", "-rf", "--", removed])
"""


def remove_when_unlocked(folder: str) -> None:
    """Remove a folder, see `akdl.storage.locked_folder`, when no process holds its lock any more.

    This returns at once. -I and -S keep the start of the process short, and its current folder is
    /, so that it keeps no other folder in use.
    """
    command = [sys.executable, "-I", "-S", "-c", _WAIT, folder, f"{folder}/{LOCK}"]
    # A session of its own keeps it out of the group of this process, which may be killed as a
    # whole.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    threading.Thread(target=process.wait, name="akdl-reap", daemon=True).start()
