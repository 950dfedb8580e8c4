"""The work folder of a TensorFlow process, which goes with it, and folders of one user alone."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import shutil
import tempfile
from collections.abc import Sequence

import akdl.wire
from akdl.folders.owned_folder import OwnedFolder
from akdl.folders.private_file import is_private_folder, not_private, private
from bridge.exceptions import ConfigurationError
from bridge.host.process import start_detached
from bridge.host.shipped import arrived
from bridge.settings import UserFile

PRIVATE_FOLDER = ".akdl"  # inside the work folder; the rest of it belongs to the script
STACKS_FILE = "stacks.txt"  # in there, for faulthandler

# Its input ends when nobody holds the other end of the pipe any more, however they ended.
_REMOVER = ["/bin/sh", "-c", """trap '' HUP INT TERM; read -r _; exec rm -rf -- "$0" """]


class WorkFolder:
    """A folder of one process alone: user files at its root, our own things in `.akdl`, all removed at the end.

    Flink may kill the worker that made it at any moment, and then it goes all the same: a small process removes it when the
    worker and the process have both ended. Where that was killed too, the next start on this host removes it.

    Args:
        path: An existing folder, which somebody else removes should this process be killed; by default a new one.
        place: Where a new one is made; the system's place for temporary files by default.

    Raises:
        ConfigurationError: There is no room for it, or a user file does not belong into it.

    Attributes:
        private: Path of the folder inside it that belongs to us.
        fds: Descriptors that the process has to inherit; as long as it lives, the folder stays.
    """

    def __init__(self, user_files: Sequence[UserFile], path: str | None = None, place: str | None = None) -> None:
        self.fds: tuple[int, ...] = ()
        self.path = path or ""
        try:
            if path is None:
                owned = OwnedFolder("akdl-", place)
                self.path, self.fds = owned.path, (owned.fd,)
                self.fds += (_remove_when_unused(self.path),)
            self.private = os.path.join(self.path, PRIVATE_FOLDER)
            self._fill(user_files)
        except OSError as error:
            self.remove()
            if error.errno == errno.EAGAIN:
                raise ConfigurationError(
                    f"no process can be started on this host: {error.strerror}: this user, or its container, has as many as it "
                    "may (ulimit -u)"
                ) from error
            raise ConfigurationError(
                f"no work folder can be made in {place or tempfile.gettempdir()}: {error.strerror}: make room there, or set "
                "Flink's io.tmp.dirs, or TMPDIR, to another place"
            ) from error
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Delete the folder and all in it. Safe to call twice."""
        if self.path:
            shutil.rmtree(self.path, ignore_errors=True)
        fds, self.fds = self.fds, ()
        for fd in fds:
            os.close(fd)

    @property
    def library(self) -> str:
        """A folder with nothing but the `akdl` package in it, for PYTHONPATH of another environment."""
        return os.path.join(self.private, "lib")

    @property
    def temporary(self) -> str:
        """The folder for temporary files of the process and of all that it starts."""
        return os.path.join(self.private, "tmp")

    def _fill(self, user_files: Sequence[UserFile]) -> None:
        os.makedirs(self.library)
        os.makedirs(self.temporary)
        package = pathlib.Path(akdl.wire.__file__).parent.parent
        os.symlink(package, os.path.join(self.library, "akdl"))
        for file in user_files:
            target = pathlib.Path(self.path, file.path)
            if PRIVATE_FOLDER in target.parts or ".." in target.parts:
                raise ConfigurationError(f"the user file {file.path!r} would leave its folder or lie among our own files")
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "wb", opener=private) as copy:
                if file.carried:
                    with open(arrived(file.carried), "rb") as original:
                        shutil.copyfileobj(original, copy)
                else:
                    copy.write(file.content)


def _remove_when_unused(folder: str) -> int:
    """Let a process remove a folder when the descriptor that is returned, and all that inherit it, are closed."""
    reading, writing = os.pipe()
    try:
        start_detached([*_REMOVER, folder], stdin=reading)
    except BaseException:
        os.close(writing)
        raise
    finally:
        os.close(reading)
    return writing


def private_folder(folder: str, purpose: str) -> str:
    """Return a folder, made if need be, that belongs to this user alone.

    Raises:
        ConfigurationError: Somebody else has made something there, or could look into it.
    """
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    if not is_private_folder(folder):
        raise ConfigurationError(f"{folder}, for {purpose}, {not_private(folder)}")
    return folder


def user_place(name: str) -> str:
    """Return where a folder of this name is that all programs of this user share: in the place for temporary files.

    Where another user has taken that name, it is in XDG_RUNTIME_DIR, which belongs to this user alone.
    """
    path, own = os.path.join(tempfile.gettempdir(), name), os.environ.get("XDG_RUNTIME_DIR", "")
    with contextlib.suppress(FileNotFoundError):
        if not is_private_folder(path) and is_private_folder(own):
            return os.path.join(own, name)
    return path
