"""Folders at any address to which a training writes: checkpoints, with a file that requests a stop,
and logs for TensorBoard.

Published checkpoints are always complete: a file gets its name once it is whole, the file
`checkpoint`, which names the latest one, follows all others, and old files are removed last. The
chief renames `STOP` to `STOPPED`, which other members still find.

TensorFlow and fsspec read some paths as patterns: a checkpoint in a folder `run[1]` is written and
never found again.

TensorFlow writes logs into a local folder itself. Files for a remote address are copied there while
the script runs, so that TensorBoard shows a training that is under way.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import tempfile
import threading
from typing import Iterator

from akdl.masking import masked, shown
from akdl.storage.files import (
    UNFINISHED,
    FileError,
    FileStates,
    file_states,
    is_remote,
    local_path,
    names_in,
    opened_with_fsspec,
    put_whole,
)

logger = logging.getLogger(__name__)

# Names of the file that requests a stop, and of the record that the request has been followed.
STOP, STOPPED = "STOP", "STOPPED"

# TensorFlow's file with the name of the latest checkpoint.
LAST = "checkpoint"

# Seconds between two copies of the logs to a remote address.
COPY_S = 10.0

_PATTERN, _REMOTE_PATTERN = re.compile(r"[*?[\\]"), re.compile(r"[*[]")


def ask_to_stop(address: str) -> None:
    _write(address, STOP)


def files_at(address: str) -> FileStates:
    """Return the names of the files at an address, with two numbers that change when the file is
    written again.
    """
    if not is_remote(address):
        return file_states(local_path(address))
    with opened_with_fsspec(address) as (system, root):
        # fsspec remembers listings of folders, and other processes write to this one.
        system.invalidate_cache(root)
        found = system.find(root, detail=True) if system.exists(root) else {}
        return {
            path[len(root) + 1 :]: (info.get("size") or 0, hash(str(info)))
            for path, info in found.items()
        }


class CheckpointFolder:
    """The folder at an address. TensorFlow uses `path`: a hidden copy if the address is remote.

    The chief calls `fetch` before it restores, and `publish` after each checkpoint. For a local
    address both do nothing, since TensorFlow works in the folder itself. The copy is hidden, so
    that the script is not warned of files that it seems to have left in its work folder.
    """

    def __init__(self, address: str, cache: str) -> None:
        self.address = address
        self.is_remote = is_remote(address)
        self.path = os.path.join(cache, ".checkpoints") if self.is_remote else local_path(address)
        self._published: FileStates = {}
        # Checked before the folder is created, so that a wrong path leaves nothing behind.
        refuse_pattern(address)
        os.makedirs(self.path, exist_ok=True)

    def fetch(self) -> None:
        if not self.is_remote:
            return
        with opened_with_fsspec(self.address) as (system, root):
            system.invalidate_cache(root)
            for name in filter(
                _is_checkpoint, names_in(system, root) if system.exists(root) else ()
            ):
                path = os.path.join(self.path, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                system.get_file(f"{root}/{name}", path)
        # The fetched files are at the address already, so they are not sent again.
        self._published = self._files()

    def publish(self) -> None:
        if not self.is_remote:
            return
        found = self._files()
        changed = _changed(found, self._published)
        with opened_with_fsspec(self.address) as (system, root):
            # The file `checkpoint` is sent last. A chief that is killed before it leaves the name
            # of the former checkpoint there, whose files are removed only afterwards.
            for name in sorted(changed, key=lambda name: os.path.basename(name) == LAST):
                put_whole(system, os.path.join(self.path, name), f"{root}/{name}")
            for name in set(self._published) - set(found):
                if system.exists(f"{root}/{name}"):
                    system.rm_file(f"{root}/{name}")
        self._published = found

    def is_asked_to_stop(self) -> bool:
        """Test for a request, or the record of one: the chief may have renamed it already."""
        return _exists(self.address, STOP) or _exists(self.address, STOPPED)

    def begin(self, attempt: int) -> None:
        """Clear the stop of a former job, unless this is a restart; for the chief, before it
        trains.
        """
        # A restart of the same job has to find the record: the job was stopped, and must not train
        # on.
        if attempt == 0:
            _remove(self.address, STOPPED)

    def note_stop(self) -> None:
        """Turn the request into a record for this job; for the chief, when it stops."""
        if _exists(self.address, STOP):
            # The record is written before the request is removed, so that other members find one of
            # the two at any moment.
            _write(self.address, STOPPED)
            _remove(self.address, STOP)

    def _files(self) -> FileStates:
        return {
            name: state for name, state in file_states(self.path).items() if _is_checkpoint(name)
        }


class LogFolder:
    """The log folder of one process; TensorFlow creates `path` with its first file. Without an
    address there is no folder, and `path` is "".
    """

    def __init__(self, address: str, cache: str) -> None:
        self._address = address
        self._is_remote = is_remote(address)
        self.path = os.path.join(cache, "logs") if self._is_remote else address
        self._copied: FileStates = {}
        self._has_warned = False

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Copy the files to the address during the block and at its end. A failing copy does not
        fail the script.
        """
        if not self._is_remote:
            yield
            return
        over = threading.Event()

        def copy() -> None:
            while not over.wait(COPY_S):
                self.copy()

        # The thread is joined before the last copy, so that two copies never write to one target.
        thread = threading.Thread(target=copy, name="akdl-logs", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            self.copy()

    def copy(self) -> None:
        """Copy the files that have changed since the last copy; an error is a warning, once.

        Logs are not worth a training, so an address that refuses them fails no job.
        """
        try:
            found = file_states(self.path)
            changed = _changed(found, self._copied)
            if not changed:
                return
            with opened_with_fsspec(self._address) as (system, root):
                for name in changed:
                    target = f"{root}/{name}"
                    system.makedirs(target.rpartition("/")[0], exist_ok=True)
                    path = os.path.join(self.path, name)
                    try:
                        system.put_file(path, target)
                    except FileNotFoundError:
                        # The script may have removed the file since it was listed. Only a missing
                        # target is an error.
                        if os.path.exists(path):
                            raise
                    # The state from before the copy is noted, so that a file which grew during the
                    # copy is copied again.
                    self._copied[name] = found[name]
        except (OSError, FileError) as error:
            if not self._has_warned:
                self._has_warned = True
                logger.warning(
                    "cannot copy the script's logs to %s: %s",
                    shown(self._address),
                    masked(str(error), self._address),
                )


def refuse_pattern(address: str) -> None:
    """Raise FileError for a path that is read as a pattern, before a job trains hours for it."""
    reader, place = (
        ("fsspec", shown(address)) if is_remote(address) else ("TensorFlow", local_path(address))
    )
    found = (_REMOTE_PATTERN if is_remote(address) else _PATTERN).search(place)
    if found is not None:
        raise FileError(
            f"{place}: {reader} reads {found[0]!r} in the path of a file as a pattern, and would"
            " not find what it has written; choose a path without * ? [ and \\"
        )


@contextlib.contextmanager
def without_pattern(folder: str) -> Iterator[str]:
    """Yield a path of the folder without pattern characters: its own, or a link."""
    if _PATTERN.search(folder) is None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="akdl-link-") as place:
        link = os.path.join(place, "model")
        os.symlink(os.path.abspath(folder), link)
        yield link


def _changed(found: FileStates, sent: FileStates) -> list[str]:
    return sorted(name for name, state in found.items() if sent.get(name) != state)


def _is_checkpoint(name: str) -> bool:
    return name not in (STOP, STOPPED) and not name.endswith(UNFINISHED)


def _exists(address: str, name: str) -> bool:
    if not is_remote(address):
        return os.path.exists(os.path.join(local_path(address), name))
    with opened_with_fsspec(address) as (system, root):
        system.invalidate_cache(root)
        return bool(system.exists(f"{root}/{name}"))


def _write(address: str, name: str) -> None:
    if not is_remote(address):
        os.makedirs(local_path(address), exist_ok=True)
        with open(os.path.join(local_path(address), name), "wb"):
            return
    with opened_with_fsspec(address) as (system, root):
        system.makedirs(root, exist_ok=True)
        # The file has content, because some storages do not keep empty files.
        system.pipe_file(f"{root}/{name}", name.encode("ascii"))


def _remove(address: str, name: str) -> None:
    if not is_remote(address):
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(local_path(address), name))
        return
    with opened_with_fsspec(address) as (system, root):
        if system.exists(f"{root}/{name}"):
            system.rm_file(f"{root}/{name}")
