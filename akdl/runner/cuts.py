"""Cuts of a stream: the places between two batches to which a failure may go back.

At a cut the script has finished all rows before it, and has written all of their output. The rows
leave Flink's state and the output leaves for Flink in one step, so every checkpoint of Flink has
both of them or neither, whenever it comes. That makes the output of a script exactly once. No
barrier of a checkpoint has to wait for it, and the script needs no further line.

Which places are cuts depends on the script:

- A script that asks for the next batch has finished the one before.
- With replay="uncommitted", this holds until the first `commit`, or else a script that never
  commits would keep all of its output back. From then on only a commit is a cut.
- A script that keeps a state has a cut where the state was saved (`checkpoint`). Otherwise a
  restart would train the rows since the last save twice, or never.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import shutil
import tarfile
import tempfile
import threading
import time
from typing import Callable, Iterator

from akdl.process.activity import main_calls
from akdl.rows.stream_rows import StreamRows
from akdl.runner.config import Reports
from akdl.runner.output_writer import OutputWriter
from akdl.runner.script_state import Learnt
from akdl.storage.archive import ArchiveError, unpack_archive
from akdl.wire import Task

logger = logging.getLogger(__name__)

# A function of the script that reads or writes files in the folder whose path it gets.
Action = Callable[[str], object]

# A message of protobuf has less than 2 GiB, and Flink's state and its checkpoint have copies of it.
MOST_STATE_BYTES = 1 << 30
# A tar file ends with two blocks of 512 zero bytes.
_TAR_END_BYTES = 1024
_FOLDER = "state"  # in the tar file


class StateError(RuntimeError):
    """The state of a script could not be saved or restored."""


class Cuts:
    """The cuts of one process, from the start of its script to its end.

    The numbers of rows count from this start.

    Args:
        rows: The rows of the script, which report here how far it is with them.
        writer: Sends the cuts, between the rows that the script writes.
        task: Settings: whether the script commits, and when its state is saved.
        state: The state that an earlier process saved before the first of these rows; empty for
            none.
        is_alone: The process has no group.
        publish: Adds the SavedModel in a folder to the models of `publishDir`, with a text on what
            it has learnt.
    """

    def __init__(
        self,
        rows: StreamRows,
        writer: OutputWriter,
        task: Task,
        state: bytes = b"",
        is_alone: bool = True,
        publish: Callable[[str, str], object] | None = None,
    ) -> None:
        self._rows, self._writer, self._task, self._publish_model = rows, writer, task, publish
        self._has_committed = False
        self._state = state
        self._is_alone = is_alone
        self._saves: _Saves | None = None
        self._models: _Models | None = None
        # Rows learnt by earlier processes of this job, or of the job whose savepoint this one
        # continues from.
        self._before = Learnt()
        # Rows that the script's own thread has finished. Threads of TensorFlow may have read more.
        self._done = 0
        self._has_warned = False
        rows.on_finished, rows.on_reached, rows.on_loose = self._finish, self.reach, self._loosen

    def commit(self, rows: int) -> None:
        """Make a cut behind so many rows, or with a state one of the places at which it may be
        saved.
        """
        self._has_committed = True
        if self._saves is None:
            self._writer.cut(rows, at_once=True)
        else:
            self.reach(rows)

    @property
    def takes_commits(self) -> bool:
        """True where the script may call `commit`."""
        return self._task.commits or self._saves is not None

    def checkpoint(
        self,
        save: Action,
        restore: Action,
        every_rows: int | None,
        export: Action | None,
        reports: Reports,
    ) -> bool:
        """Restore the state of an earlier process, if there is one, and save the state from now on.

        With `publishDir`, models of it are published from now on too.

        Returns:
            True if there was one.
        """
        task = self._task
        if not self._is_alone:
            raise StateError(
                "task_config.checkpoint: expected a script without a group, got one of several"
                " processes: their states would belong to different steps. Set numWorkers=1 and"
                " numPSs=0"
            )
        if self._saves is not None:
            raise StateError(
                "task_config.checkpoint was called before: save all of the state with one call"
            )
        if self._rows.given or self._rows.is_loose:
            raise StateError("task_config.checkpoint: call it before the first batch is read")
        if self._publish_model is not None:
            if export is None:
                raise StateError(
                    "publishDir: expected a Keras model, or a function that exports a SavedModel: "
                    "task_config.checkpoint(..., export=lambda folder: ...)"
                )
            self._models = _Models(
                export, self._publish_model, task.publish_every_ms / 1000, task.work_dir
            )
            reports.watch("seconds_since_publish", self._models.age_s)
        if self._state:
            self._before = _restore(self._state, restore, task.work_dir)
        self._saves = _Saves(
            save,
            task.save_every_ms / 1000,
            task.most_unsaved,
            every_rows,
            task.work_dir,
            lambda: self._rows.taken_bytes,
        )
        # These are read with each report, because they change while the script reports nothing, for
        # example while no rows arrive.
        reports.watch("rows_learnt", lambda: self._before.rows + self._done)
        reports.watch("seconds_since_save", self._saves.age_s)
        return bool(self._state)

    def reach(self, rows: int) -> None:
        """Note that the script has finished so many rows; its own thread calls this, between two
        batches.
        """
        # A commit may name fewer rows than the script has finished, and a state that is saved then
        # has learnt all of them.
        rows = self._done = max(self._done, rows)
        # A script that says what it has learnt of a derived dataset may return within the batches
        # that TensorFlow took together, and has none of the others in its hands.
        self._rows.handed = max(self._rows.handed or 0, rows)
        if self._saves is None:
            self._cut(rows)
            return
        # Output leaves with a save, so a stream whose rows stay away must not keep it back: the
        # script waits here for its next batch, where it can still save.
        works: list[tuple[_Repeated, Callable[[int], None]]] = [(self._saves, self._save_or_retry)]
        if self._models is not None:
            works.append((self._models, self._publish))
        # The work that is due first is waited for first: a wait for the next model would otherwise
        # keep the output back that a save lets leave.
        for each, work in sorted(works, key=lambda work: work[0].seconds_left(rows) or 0.0):
            seconds = each.seconds_left(rows)
            # A next batch ends the wait, because the script should work on it first; the work is
            # then due after that batch.
            if seconds is not None and not (
                seconds > 0 and self._rows.wait_for_batch(rows, seconds)
            ):
                work(rows)

    def end(self) -> None:
        """Make the last cut, because the script has returned without an error."""
        if self._rows.is_loose and self._saves is None:
            return
        # A script that has returned has finished the batch in its hands too, for which it asks no
        # further batch.
        rows = max(self._done, self._rows.received)
        if self._saves is not None:
            if self._models is not None and rows > self._models.rows:
                self._publish(rows)
            # Even without new rows there has to be one save, because the output of a script with a
            # state leaves with a save only.
            if rows > self._saves.rows or not self._saves.count:
                self._save(rows, is_last=True)
        elif not (self._task.commits and self._has_committed):
            self._cut(rows)

    def _finish(self, rows: int) -> None:
        """Note that the dataset was asked for more after so many rows; threads of TensorFlow call
        this.
        """
        if self._saves is None:
            self._cut(rows)
        elif rows > self._done:
            # TensorFlow passes on a ValueError; it converts other kinds to an unknown error.
            raise ValueError(
                f"task_config.checkpoint: {rows} rows have been read, and only {self._done} are"
                " known to be learnt. Iterate over tf_context.batches(n) itself, call"
                " task_config.commit(rows) after each batch of a dataset made from it, or pass"
                " checkpoint.callback() to model.fit; all without prefetch"
            )
        # A thread of the script that hands batches on looks as if it had learnt them.
        self._warn_of_reading_ahead()

    def _cut(self, rows: int) -> None:
        # With `publishDir` a script needs a state, and after its first batch it can no longer call
        # `checkpoint`.
        self._require_state()
        if not (self._task.commits and self._has_committed):
            self._writer.cut(rows)

    def _loosen(self) -> None:
        # A script with a state has to commit the rows then, and its output waits for the saves.
        if self._saves is None:
            self._require_state()
            # A script that has begun with `commit(0)` commits all of its output.
            if not self._has_committed:
                self._writer.loosen()
        elif self._rows.batch_size:
            raise ValueError(
                "task_config.checkpoint: expected batches in the order of the stream, got"
                " shuffle_rows, with which it is not known which rows have been learnt. Shuffle the"
                " rows of a batch in the script"
            )

    def _require_state(self) -> None:
        if self._publish_model is not None:
            raise ValueError(
                "publishDir: expected a script that calls task_config.checkpoint before its first"
                " batch"
            )

    def _learnt(self, rows: int) -> Learnt:
        # An earlier process may have learnt rows with later event times than this one so far.
        return Learnt(self._before.rows + rows, max(self._before.until, self._rows.time_of(rows)))

    def _publish(self, rows: int) -> None:
        assert self._models is not None
        self._models.publish(self._learnt(rows), rows)

    def _save_or_retry(self, rows: int) -> None:
        """Save, and try again while no rows come: the output waits for it."""
        # At least a second passes between two attempts, also where `saveEvery` is shorter.
        while not self._save(rows) and not self._rows.wait_for_batch(
            rows, max(1.0, self._task.save_every_ms / 1000)
        ):
            pass

    def _save(self, rows: int, is_last: bool = False) -> bool:
        assert self._saves is not None
        state = self._saves.save(rows, is_last, self._learnt(rows))
        if state is not None:
            self._writer.cut(rows, state)
        return state is not None

    def _warn_of_reading_ahead(self) -> None:
        """Warn once where rows are requested while the script works: what it has finished cannot be
        seen then.
        """
        is_main = threading.current_thread() is threading.main_thread()
        if self._has_warned or is_main or _main_thread_is_in_tensorflow():
            return
        self._has_warned = True
        logger.warning(
            "rows are read ahead of the script (prefetch, parallel calls or a thread of its own),"
            " so a failure may lose the rows that were read and not worked on. Iterate over"
            " tf_context.batches(n) itself, or set replay to 'uncommitted' and call"
            " task_config.commit(rows)"
        )


class _Repeated:
    """Work of the script's thread between two batches, at intervals: when it is due again."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._tried = self._succeeded = time.monotonic()
        # Rows that the script had finished when the work last succeeded.
        self.rows = 0

    def seconds_left(self, rows: int) -> float | None:
        """Return the seconds until it is due; None where there is nothing new."""
        return (
            None if rows == self.rows else max(0.0, self._tried + self._every_s - time.monotonic())
        )

    def age_s(self) -> float:
        return time.monotonic() - self._succeeded

    @contextlib.contextmanager
    def attempt(self, rows: int) -> Iterator[None]:
        """Do it. The interval counts from the end, so that work which takes longer leaves time to
        learn.
        """
        try:
            yield
            self._succeeded, self.rows = time.monotonic(), rows
        finally:
            self._tried = time.monotonic()


class _Models(_Repeated):
    """The models that a script publishes."""

    def __init__(
        self, export: Action, publish: Callable[[str, str], object], every_s: float, folder: str
    ) -> None:
        super().__init__(every_s)
        self._export, self._publish, self._folder = export, publish, folder

    def publish(self, learnt: Learnt, rows: int) -> None:
        """Export a model and publish it. A storage that fails costs this version only, unless it is
        the first one.
        """
        with tempfile.TemporaryDirectory(prefix="model-", dir=self._folder or None) as folder:
            self._export(folder)
            try:
                with self.attempt(rows):
                    self._publish(folder, str(learnt))
            except OSError as error:
                # The first failure is probably a wrong folder, which no later attempt would change.
                if not self.rows:
                    raise StateError(
                        f"publishDir: the first model could not be published: {error}"
                    ) from error
                logger.warning(
                    "the model of %d rows could not be published, and the last one stays: %s",
                    learnt.rows,
                    error,
                )


class _Saves(_Repeated):
    """The saved states of a script, and their bytes."""

    def __init__(
        self,
        save: Action,
        every_s: float,
        most_bytes: int,
        every_rows: int | None,
        folder: str,
        taken: Callable[[], int],
    ) -> None:
        super().__init__(every_s)
        self._action, self._every_rows, self._folder = save, every_rows, folder
        # Bytes that the script has taken so far.
        self._taken_bytes = taken
        # The bridge keeps the rows and their output since the last save, so there is a bound for
        # them too.
        self._most_bytes = most_bytes
        # Bytes that the script had taken at the last successful save.
        self._bytes = 0
        self.count = 0

    def seconds_left(self, rows: int) -> float | None:
        """Return the seconds until the next save is due, which many rows or bytes make due
        at once.
        """
        is_far = self._every_rows is not None and rows - self.rows >= self._every_rows
        if rows != self.rows and (
            # A save is due at half of the bound, so that one that fails can be repeated before the
            # bound is reached.
            is_far or self._taken_bytes() - self._bytes > self._most_bytes // 2
        ):
            return 0.0
        return super().seconds_left(rows)

    def save(self, rows: int, is_last: bool, learnt: Learnt) -> bytes | None:
        """Return the state, or None where it could not be saved and the last one may stand in for
        it.
        """
        # The number is read before the save, because rows may be taken while the files are written.
        taken_bytes = self._taken_bytes()
        try:
            with self.attempt(rows):
                state = _packed(self._action, self._folder, learnt)
        except Exception as error:
            # The last save has no later one that could stand in for it, and beyond the bound the
            # bridge would have to keep too many rows.
            if is_last or taken_bytes - self._bytes > self._most_bytes:
                raise StateError(
                    f"the script's state could not be saved since row {self.rows}, and {rows} rows"
                    f" have been learnt: {type(error).__name__}: {error}"
                ) from error
            logger.warning(
                "the script's state could not be saved after %d rows, so the one after %d rows"
                " stays: %s: %s",
                rows,
                self.rows,
                type(error).__name__,
                error,
            )
            return None
        self._bytes = taken_bytes
        self.count += 1
        return state


def _packed(save: Action, work_dir: str, learnt: Learnt) -> bytes:
    """Return the files that `save` writes into an empty folder, and what the state has learnt, as a
    tar file.
    """
    folder = tempfile.mkdtemp(prefix="saved-", dir=work_dir or None)
    try:
        save(folder)
        learnt.write(folder)
        packed = io.BytesIO()
        # Links become files, because no link is unpacked. All names are below a folder, because one
        # such as "w:0" is refused at the top, where it would be a drive of Windows.
        with tarfile.open(fileobj=packed, mode="w", dereference=True) as archive:
            archive.add(folder, _FOLDER)
        if packed.tell() > MOST_STATE_BYTES:
            raise StateError(
                f"expected at most {MOST_STATE_BYTES} bytes of state, got {packed.tell()}"
            )
        return packed.getvalue()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _restore(state: bytes, restore: Action, work_dir: str) -> Learnt:
    """Call `restore` with the files of a state; return what it has learnt.

    The files stay: TensorFlow reads the values of later variables from them later.
    """
    folder = tempfile.mkdtemp(prefix="restored-", dir=work_dir or None)
    try:
        # A tar file that is cut between two of its files seems to be whole, but for its end.
        if not state.endswith(bytes(_TAR_END_BYTES)):
            raise ArchiveError("its end is missing")
        unpack_archive(io.BytesIO(state), folder)
        folder = os.path.join(folder, _FOLDER)
        learnt = Learnt.take(folder)
    except (ArchiveError, OSError, ValueError) as error:
        raise StateError(
            f"the state of the script in Flink's checkpoint or savepoint is damaged: {error}."
            " Continue from another one"
        ) from error
    # An error of the script's own function keeps its type and traceback, so it is outside of the
    # block above.
    restore(folder)
    return learnt


def _main_thread_is_in_tensorflow() -> bool:
    """Test if the script's thread is inside TensorFlow, where it may wait for a dataset."""
    return any(
        f"{os.sep}tensorflow{os.sep}" in frame.f_code.co_filename for frame, _ in main_calls()
    )
