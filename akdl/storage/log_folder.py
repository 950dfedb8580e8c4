"""The folder for TensorBoard logs of a script.

TensorFlow writes into a local folder itself. Files for a remote address are copied there while the
script runs, so that TensorBoard shows a training that is under way.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from typing import Iterator

from akdl.masking import masked, shown
from akdl.storage.files import FileError, FileStates, file_states, is_remote, opened_with_fsspec

logger = logging.getLogger(__name__)

# Seconds between two copies of the logs to a remote address.
COPY_S = 10.0


class LogFolder:
    """The log folder of one process; TensorFlow creates `path` with its first file."""

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
            changed = sorted(
                name for name, state in found.items() if self._copied.get(name) != state
            )
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
