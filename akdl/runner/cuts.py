"""Cuts of a stream: the places between two batches to which a failure may go back.

At a cut the script has finished all rows before it, and has written all of their output. The rows leave Flink's state and the
output leaves for Flink in one step, so every checkpoint of Flink has both of them or neither, whenever it comes. That makes the
output of a script exactly once. No barrier of a checkpoint has to wait for it, and the script needs no further line.

Which places are cuts depends on the script:

- A script that asks for the next batch has finished the one before.
- With replay="uncommitted", this holds until the first `commit`, or else a script that never commits would keep all of its
  output back. From then on only a commit is a cut.
- A script that keeps a state has a cut where the state was saved (`checkpoint`). Otherwise a restart would train the rows since
  the last save twice, or never.
"""

import io
import logging
import os
import shutil
import sys
import tarfile
import tempfile
import threading
import time
from typing import Any, Callable, Optional

from akdl.rows.stream_rows import StreamRows
from akdl.runner.output_writer import OutputWriter
from akdl.storage.archive import unpack_archive
from akdl.wire import Task

logger = logging.getLogger(__name__)

Action = Callable[[str], object]  # with the path of a folder

# A message of protobuf has less than 2 GiB, and Flink's state and its checkpoint have copies of it.
MOST_STATE_BYTES = 1 << 30


class StateError(RuntimeError):
    """The state of a script could not be saved or restored."""


class Cuts:
    """The cuts of one process, from the start of its script to its end.

    The numbers of rows count from this start.

    Args:
        rows: The rows of the script, which report here how far it is with them.
        writer: Sends the cuts, between the rows that the script writes.
        task: Settings: whether the script commits, and when its state is saved.
        state: The state that an earlier process saved before the first of these rows; empty for none.
        is_alone: The process has no group.
    """

    def __init__(self, rows: StreamRows, writer: OutputWriter, task: Task, state: bytes = b"", is_alone: bool = True) -> None:
        self._rows, self._writer = rows, writer
        self._waits_for_commits = task.commits
        self._has_committed = False
        self._state = state
        self._is_alone = is_alone
        self._saves: Optional[_Saves] = None
        self._save_every_s, self._most_unsaved = task.save_every_ms / 1000, task.most_unsaved
        self._folder = task.work_dir
        self._done = 0  # rows that the script's own thread has finished
        self._has_warned = False
        rows.on_finished, rows.on_reached, rows.on_loose = self._finish, self.reach, self._loosen

    def commit(self, rows: int) -> None:
        """Make a cut behind so many rows, or with a state one of the places at which it may be saved."""
        self._has_committed = True
        if self._saves is None:
            self._writer.cut(rows, at_once=True)
        else:
            self.reach(rows)

    @property
    def takes_commits(self) -> bool:
        """True where the script may call `commit`."""
        return self._waits_for_commits or self._saves is not None

    def checkpoint(self, save: Action, restore: Action, every_rows: Optional[int]) -> bool:
        """Restore the state of an earlier process, if there is one, and save the state from now on.

        Returns:
            True if there was one.
        """
        if not self._is_alone:
            raise StateError(
                "task_config.checkpoint: expected a script without a group, got one of several processes: their states would "
                "belong to different steps. Set numWorkers=1 and numPSs=0"
            )
        if self._saves is not None:
            raise StateError("task_config.checkpoint was called before: save all of the state with one call")
        if self._rows.given:
            raise StateError("task_config.checkpoint: call it before the first batch is read")
        if self._state:
            _restore(self._state, restore, self._folder)
        self._saves = _Saves(save, self._save_every_s, self._most_unsaved, every_rows, self._folder)
        return bool(self._state)

    def reach(self, rows: int) -> None:
        """Note that the script has finished so many rows; its own thread calls this, between two batches."""
        self._done = max(self._done, rows)
        if self._saves is None:
            self._cut(rows)
            return
        # Output leaves with a save, so a stream whose rows stay away must not keep it back: the script waits here for its next
        # batch, where it can still save.
        seconds = self._saves.seconds_left(rows, self._rows.taken_bytes)
        if seconds is not None and not (seconds > 0 and self._rows.wait_for_batch(rows, seconds)):
            self._save(rows)

    def end(self) -> None:
        """Make the last cut, because the script has returned without an error."""
        if self._rows.is_loose and self._saves is None:
            return
        rows = max(self._done, self._rows.received)
        if self._saves is not None:
            if rows > self._saves.rows or not self._saves.count:
                self._save(rows, is_last=True)
        elif not (self._waits_for_commits and self._has_committed):
            self._cut(rows)

    def _finish(self, rows: int) -> None:
        """Note that the dataset was asked for more after so many rows; threads of TensorFlow call this."""
        if self._saves is None:
            self._warn_of_reading_ahead()
            self._cut(rows)
        elif rows > self._done:
            # TensorFlow passes on a ValueError; it converts other kinds to an unknown error.
            raise ValueError(
                f"task_config.checkpoint: {rows} rows have been read, and only {self._done} are known to be learnt. "
                "Iterate over tf_context.batches(n) itself, call task_config.commit(rows) after each batch of a dataset made "
                "from it, or pass checkpoint.callback() to model.fit; all without prefetch"
            )

    def _cut(self, rows: int) -> None:
        if not (self._waits_for_commits and self._has_committed):
            self._writer.cut(rows)

    def _loosen(self) -> None:
        # A script with a state has to commit the rows then, and its output waits for the saves.
        if self._saves is None:
            self._writer.loosen()

    def _save(self, rows: int, is_last: bool = False) -> None:
        assert self._saves is not None
        state = self._saves.save(rows, self._rows.taken_bytes, is_last)
        if state is not None:
            self._writer.cut(rows, state)

    def _warn_of_reading_ahead(self) -> None:
        """Warn once where rows are requested while the script works: what it has finished cannot be seen then."""
        is_main = threading.current_thread() is threading.main_thread()
        if self._has_warned or is_main or _main_thread_is_in_tensorflow():
            return
        self._has_warned = True
        logger.warning(
            "rows are read ahead of the script (prefetch, parallel calls or a thread of its own), so a failure may lose the "
            "rows that were read and not worked on. Iterate over tf_context.batches(n) itself, or set replay to "
            "'uncommitted' and call task_config.commit(rows)"
        )


class _Saves:
    """The saved states of a script: when the next one is due, and its bytes."""

    def __init__(self, save: Action, every_s: float, most_bytes: int, every_rows: Optional[int], folder: str) -> None:
        self._action, self._every_s, self._every_rows, self._folder = save, every_s, every_rows, folder
        # The bridge keeps the rows and their output since the last save, so there is a bound for them too.
        self._most_bytes = most_bytes
        self._tried = time.monotonic()
        self._bytes = 0  # that the script had taken at the last good save
        self.rows = 0  # finished at the last good save
        self.count = 0

    def seconds_left(self, rows: int, taken_bytes: int) -> Optional[float]:
        """Return the seconds until the next save is due; None where there is nothing new to save."""
        if rows == self.rows:
            return None
        is_far = self._every_rows is not None and rows - self.rows >= self._every_rows
        if is_far or taken_bytes - self._bytes > self._most_bytes // 2:
            return 0.0
        return max(0.0, self._tried + self._every_s - time.monotonic())

    def save(self, rows: int, taken_bytes: int, is_last: bool) -> Optional[bytes]:
        """Return the state, or None where it could not be saved and the last one may stand in for it."""
        self._tried = time.monotonic()
        try:
            state = _packed(self._action, self._folder)
        except Exception as error:
            if is_last or taken_bytes - self._bytes > self._most_bytes:
                raise StateError(
                    f"the script's state could not be saved since row {self.rows}, and {rows} rows have been learnt: "
                    f"{type(error).__name__}: {error}"
                ) from error
            logger.warning(
                "the script's state could not be saved after %d rows, so the one after %d rows stays: %s: %s",
                rows, self.rows, type(error).__name__, error,
            )  # fmt: skip
            return None
        self.rows, self._bytes = rows, taken_bytes
        self.count += 1
        return state


def _packed(save: Action, work_dir: str) -> bytes:
    """Return the files that `save` writes into an empty folder, as a tar file."""
    folder = tempfile.mkdtemp(prefix="saved-", dir=work_dir or None)
    try:
        save(folder)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for name in sorted(os.listdir(folder)):
                archive.add(os.path.join(folder, name), name)
        if packed.tell() > MOST_STATE_BYTES:
            raise StateError(f"expected at most {MOST_STATE_BYTES} bytes of state, got {packed.tell()}")
        return packed.getvalue()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _restore(state: bytes, restore: Action, work_dir: str) -> None:
    """Call `restore` with the files of a state, which stay: TensorFlow reads the values of later variables from them later."""
    folder = tempfile.mkdtemp(prefix="restored-", dir=work_dir or None)
    unpack_archive(io.BytesIO(state), folder)
    restore(folder)


def _main_thread_is_in_tensorflow() -> bool:
    """Tell whether the script's thread waits for a dataset, or calls a function of TensorFlow that may."""
    frame: Any = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if f"{os.sep}tensorflow{os.sep}" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False
