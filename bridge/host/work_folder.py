"""The work folder of a TensorFlow process, which is removed with it.

It is the current folder of the process and has copies of the user's files, so that a script finds
its modules and data there.

Exit handlers do not run in a process that is killed, as Flink kills its workers. So another small
process, in a session of its own, waits for the lock of the folder, which the kernel frees after any
death, and removes the folder.
"""

from __future__ import annotations

import errno
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence

import akdl.wire
from akdl.storage.local_files import private
from akdl.storage.locked_folder import LOCK, OwnedFolder, remove
from bridge.exceptions import ConfigurationError
from bridge.host.shipped import path_on_host
from bridge.settings import UserFile

# This folder is inside the work folder. The rest of the work folder belongs to the script.
PRIVATE_FOLDER = ".akdl"
# faulthandler writes into this file in `.akdl`.
STACKS_FILE = "stacks.txt"


class WorkFolder:
    """A folder of one process alone: user files at its root, our own things in `.akdl`.

    Flink may kill the worker that made it at any moment. Then a small process removes it, once the
    worker and the process that inherited `fds` have ended.

    Args:
        user_files: Files of the user, whose paths may not leave the folder.
        path: An existing folder to fill, which its owner removes; None for a new one.
        place: Folder for a new one; None for the system's folder for temporary files.

    Raises:
        ConfigurationError: The folder cannot be made, or a path leaves it.
    """

    def __init__(
        self, user_files: Sequence[UserFile], path: str | None = None, place: str | None = None
    ) -> None:
        self.fds: tuple[int, ...] = ()
        self.path = path or ""
        try:
            if path is None:
                owned = OwnedFolder("akdl-", place, at_exit=False)
                self.path = owned.path
                self.fds = (owned.fd,)
                # The remover starts before the folder has files, so it also removes a folder that
                # is never completed.
                remove_when_unlocked(self.path)
            self.private = f"{self.path}/{PRIVATE_FOLDER}"
            # This folder has the `akdl` package alone, for PYTHONPATH of another environment. The
            # folder of this Python's packages would give all of them to a Python of another
            # version.
            self.library = f"{self.private}/lib"
            self.temporary = f"{self.private}/tmp"
            self._fill()
            self.add(user_files)
        except OSError as error:
            self.remove()
            # The small process that removes the folder could not be started.
            if error.errno == errno.EAGAIN:
                raise ConfigurationError(
                    f"no process can be started on this host: {error.strerror}: this user, or its"
                    " container, has reached its limit of processes (ulimit -u)"
                ) from error
            raise ConfigurationError(
                f"no work folder can be made in {place or tempfile.gettempdir()}: {error.strerror}."
                " Make room there, or set Flink's io.tmp.dirs or TMPDIR to another folder"
            ) from error
        except BaseException:
            self.remove()
            raise

    def add(self, user_files: Sequence[UserFile]) -> None:
        """Copy the user's files into it."""
        for file in user_files:
            path = pathlib.Path(file.path)
            if path.is_absolute() or {PRIVATE_FOLDER, ".."} & set(path.parts):
                raise ConfigurationError(
                    f"the user file {file.path!r} would be outside of the work folder, or in"
                    f" {PRIVATE_FOLDER}, which is akdl's"
                )
            target = self.path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "wb", opener=private) as copy:
                if file.shipped:
                    with open(path_on_host(file.shipped), "rb") as original:
                        shutil.copyfileobj(original, copy)
                else:
                    copy.write(file.content)

    def remove(self) -> None:
        if self.path:
            remove(self.path)
        fds = self.fds
        self.fds = ()
        for fd in fds:
            os.close(fd)

    def _fill(self) -> None:
        os.makedirs(self.library)
        os.makedirs(self.temporary)
        os.symlink(pathlib.Path(akdl.wire.__file__).parent.parent, f"{self.library}/akdl")


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
