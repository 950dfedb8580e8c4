"""The argument of a user's `main`: a task config.

Its names and meanings are the ones of Alink's documentation.

`dataset_file` and `dataset_length` wait until this worker's whole share has arrived; everything
else, including `tf_context.flink_stream_dataset()`, is available at once.

A script may derive one config from another: `TrainTaskConfig(saved_model_dir=folder,
**task_config.__dict__)`. So each class accepts the arguments of the other classes and ignores them.
"""

import functools
import numbers
import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, Mapping, Optional, Sequence, TypeVar

from akdl.wire import Report

if TYPE_CHECKING:
    from akdl.rows.stream_rows import StreamRows
    from akdl.runner.context import TFContext
    from akdl.runner.cuts import Action, Cuts
    from akdl.runner.extra_inputs import ExtraInput
    from akdl.runner.output_writer import OutputWriter
    from akdl.runner.script_state import Checkpoint


Value = TypeVar("Value")


class Reports:
    """The latest value of each metric; shared by the script's threads and the progress.

    The script's threads add values, and the thread of the progress sends the latest ones to the
    Flink side twice a second. Values in between are dropped, so a report costs microseconds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest = Report()
        self._gauges: Dict[str, Callable[[], float]] = {}
        # True once the script has returned and its model is checked and packed: the bridge shows
        # this as a phase of its own.
        self.is_exporting = False

    def add(self, step: Optional[int], metrics: Mapping[str, object]) -> None:
        """Replace the latest values.

        All values are converted first: a tensor waits for its computation, and other threads must
        not wait for the lock meanwhile.
        """
        values = {name: _number(name, value) for name, value in metrics.items()}
        at = None if step is None else int(_number("step", step))
        with self._lock:
            self._latest.number += 1
            if at is not None:
                self._latest.step = at
                # The driver finds by the first step of an attempt how much of the former attempt is
                # repeated.
                self._latest.first_step = self._latest.first_step or at
            for name, value in values.items():
                self._latest.metrics[name] = value

    def watch(self, name: str, read: Callable[[], float]) -> None:
        """Read a metric whenever the values are sent, which does not count as progress."""
        self._gauges[name] = read

    def latest(self) -> Report:
        """Return a copy, as the message may change while it is serialized."""
        copy = Report()
        with self._lock:
            copy.CopyFrom(self._latest)
        # A copy is iterated, because the script may add a gauge meanwhile, and a dict must not
        # change then.
        for name, read in list(self._gauges.items()):
            copy.metrics[name] = read()
        return copy


class _OfRows(Generic[Value]):
    """Property computed from the rows on first access; an explicit value overrides it."""

    def __init__(self, read: "Callable[[_FileTaskConfig], Value]") -> None:
        # A property without `__set__` yields to an attribute of the same name, so a config that is
        # derived from another one keeps its explicit value.
        self._read = read
        self.__doc__ = read.__doc__

    def __get__(self, config: "Optional[_FileTaskConfig]", owner: Optional[type] = None) -> Value:
        # Access through the class, as documentation tools do it, gives the property with its
        # docstring.
        return self if config is None else self._read(config)  # type: ignore[return-value]


class TaskConfig:
    """Attributes common to all kinds of tasks.

    Args:
        tf_context: Access to the rows and their columns, see `akdl.runner.context.TFContext`.
        num_workers: Number of workers including the chief, without parameter servers.
        cluster: The `cluster` entry of TF_CONFIG: role name to list of "host:port".
        task_type: The `task.type` entry of TF_CONFIG: "chief", "worker" or "ps".
        task_index: The `task.index` entry of TF_CONFIG.
        work_dir: A private folder of this process, removed when the task ends.
        user_params: The operator's `userParams`. Numbers and booleans also act as text, see
            `akdl.runner.user_params`. "ALINK:bc_k" is the path of extra input k as plain text.
        extra_inputs: The inputs that every process receives completely, in order, see
            `akdl.runner.extra_inputs`.
        checkpoint_dir: The operator's `checkpointDir`, the same for all members and all attempts: a
            local path, or an address such as s3://bucket/folder; None when it is not set.
        log_dir: A folder for TensorBoard's files below the operator's `logDir`, the same for all
            members of this run. Its files are kept; None when `logDir` is not set.
        attempt: Number of Flink's attempt to run this group, counted from 0; each restart adds 1.
        reports: Storage for the values of `report`.
        others: Arguments of other task configs, which are ignored.
    """

    def __init__(
        self,
        *,
        tf_context: "TFContext",
        num_workers: int,
        cluster: Dict[str, Any],
        task_type: str,
        task_index: int,
        work_dir: str,
        user_params: Dict[str, Any],
        extra_inputs: "Sequence[ExtraInput]" = (),
        checkpoint_dir: Optional[str] = None,
        log_dir: Optional[str] = None,
        attempt: int = 0,
        reports: Optional[Reports] = None,
        **others: Any,
    ) -> None:
        self.tf_context = tf_context
        self.num_workers = num_workers
        self.cluster = cluster
        self.task_type = task_type
        self.task_index = task_index
        self.work_dir = work_dir
        self.user_params = user_params
        self.extra_inputs = list(extra_inputs)
        self.checkpoint_dir = checkpoint_dir
        self.log_dir = log_dir
        self.attempt = attempt
        self.reports = Reports() if reports is None else reports

    @property
    def context(self) -> "TFContext":
        """`tf_context`, by a name that fits any framework."""
        return self.tf_context

    def report(self, step: Optional[int] = None, **metrics: Any) -> None:
        """Report the training's progress.

        Any process may call this at any time and any number of times.

        A call takes microseconds and does not block. The latest value of each metric is sent twice
        a second, and the Flink side logs it every few seconds.

        Args:
            step: Steps made so far; by default the last reported number.
            metrics: Numbers by name, such as `loss=0.25`. A tensor is read, which waits for its
                computation.

        Raises:
            TypeError: A value is not a number.
        """
        self.reports.add(step, metrics)


class _FileTaskConfig(TaskConfig):
    """Config of tasks whose rows are all stored; both values are computed on first access."""

    def __init__(
        self,
        *,
        dataset_file: Optional[str] = None,
        dataset_length: Optional[int] = None,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        # Only given values become attributes, because an attribute hides the property that waits
        # for the rows.
        for name, value in (("dataset_file", dataset_file), ("dataset_length", dataset_length)):
            if value is not None:
                setattr(self, name, value)

    @_OfRows
    def dataset_file(self) -> str:
        """Path of a TFRecord file with this worker's rows as tf.train.Example.

        It can be read any number of times.

        Waits until the file is complete.

        Raises:
            akdl.process.channel.ChannelError: The rows did not arrive completely.
        """
        return self.tf_context.rows.file()

    @_OfRows
    def dataset_length(self) -> int:
        """Number of rows in `dataset_file`; waits until all rows have arrived."""
        return self.tf_context.rows.length()


class BatchTaskConfig(_FileTaskConfig):
    """Task config of `TensorFlowBatchOp` and `TensorFlow2BatchOp`.

    Args:
        output_writer: Sends rows of `outputSchemaStr` to the result table.
        common: See `TaskConfig`.
    """

    def __init__(self, *, output_writer: "OutputWriter", **common: Any) -> None:
        super().__init__(**common)
        self.output_writer = output_writer


class TrainTaskConfig(_FileTaskConfig):
    """Task config of operators whose result is a model.

    Args:
        saved_model_dir: The folder to which the script exports a SavedModel.
        latest_ckpt_dir: The folder for the last checkpoint; None when no checkpoint was requested.
        common: See `TaskConfig`.
    """

    def __init__(
        self, *, saved_model_dir: str, latest_ckpt_dir: Optional[str] = None, **common: Any
    ) -> None:
        super().__init__(**common)
        self.saved_model_dir = saved_model_dir
        self.latest_ckpt_dir = latest_ckpt_dir


class StreamTaskConfig(TaskConfig):
    """Task config of stream operators.

    Args:
        output_writer: Sends rows of `outputSchemaStr` to the result table.
        rows: The rows, whose counts `commit` uses.
        cuts: Takes commits and the script's state.
        common: See `TaskConfig`.
    """

    def __init__(
        self,
        *,
        output_writer: "OutputWriter",
        rows: "Optional[StreamRows]" = None,
        cuts: "Optional[Cuts]" = None,
        **common: Any,
    ) -> None:
        super().__init__(**common)
        self.output_writer = output_writer
        self._rows, self._cuts = rows, cuts
        self._committed = 0

    def dataset_fn(self) -> Any:
        """Return a tf.data.Dataset of serialized tf.train.Example over the arriving rows.

        It can be iterated once.

        Iterating waits for rows, and ends with the stream. A second iteration yields no rows and
        logs a warning.
        """
        return self.tf_context.flink_stream_dataset()

    def commit(self, rows: Optional[int] = None) -> None:
        """Mark rows as done, together with all output written so far.

        They are not replayed after a failure, and their output leaves for Flink.

        Requires the operator's parameter replay="uncommitted", or a state that `checkpoint` keeps,
        which may then be saved. Rows that are not committed are passed to the script again when it
        restarts after a failure. Rows arrive in chunks, and only an explicit number commits part of
        a chunk.

        Args:
            rows: Number of rows done since the last commit, in the order of the dataset. By default
                all rows of the chunks that the dataset has read completely, which is too many where
                `prefetch`, `shuffle` or parallel calls read ahead.

        Raises:
            RuntimeError: The operator does not wait for commits.
            ValueError: More rows than the dataset has yielded.
        """
        if self._rows is None or self._cuts is None or not self._cuts.takes_commits:
            raise RuntimeError(
                'commit() needs replay="uncommitted" on the operator, or a state that checkpoint()'
                " keeps"
            )
        # `passed` counts whole chunks, and `taken` counts single rows. A commit by number may be
        # ahead of the chunks.
        done = self._rows.passed if rows is None else self._committed + rows
        if done > self._rows.taken or done < self._committed:
            if rows is None:
                # These chunks were already committed by number, so there is nothing to add.
                return
            raise ValueError(
                f"commit({rows}): {self._committed} rows were committed before, and the dataset has"
                f" yielded {self._rows.taken}"
            )
        self._committed = done
        self._cuts.commit(done)

    def checkpoint(
        self,
        state: Any,
        restore: "Optional[Action]" = None,
        every_rows: Optional[int] = None,
        export: "Optional[Action]" = None,
    ) -> "Checkpoint":
        """Keep the state of the script in Flink's checkpoints, so that each row changes it once,
        whatever fails.

        Call it before the first batch is read. It restores what an earlier process of this job, or
        of the job whose savepoint this one continues from, has saved. From then on the state is
        saved between two batches, every `saveEvery` seconds of the operator and when the script
        returns. Each checkpoint of Flink has the saved state, the rows behind it, and none of their
        output, which leaves with the next save.

        With `publishDir` of the operator, a model of what the script has learnt appears there every
        `publishEvery` seconds, between two batches as well, and when the script returns.

        Args:
            state: A Keras model, which is saved with its optimizer, a `tf.train.Checkpoint`, or a
                function that writes the files of the state into the folder whose path it gets.
            restore: With a function as `state`: one that reads these files from a folder.
            every_rows: Save also when so many rows have been finished since the last save.
            export: Writes a SavedModel into the folder whose path it gets, for `publishDir`. By
                default a Keras model is exported; other states have no default.

        Raises:
            StateError: The process belongs to a group, or a batch has been read before.
            TypeError: `state` is none of these, or `restore` is missing.
        """
        from akdl.runner.script_state import Checkpoint, actions_of, export_model, is_model

        save, restore = actions_of(state, restore)
        # A Keras model can be exported without knowledge of the script, a tf.train.Checkpoint and
        # the user's own files cannot.
        if export is None and is_model(state):
            export = functools.partial(export_model, state)
        # Without Flink, as in a test of the script, there is neither an earlier process nor a later
        # one.
        is_restored = self._cuts is not None and self._cuts.checkpoint(
            save, restore, every_rows, export, self.reports
        )
        return Checkpoint(is_restored, self._rows)


def _number(name: str, value: Any) -> float:
    if isinstance(value, numbers.Real):
        return float(value)
    # An array or tensor without dimensions is a number. A text would be converted by `float` too,
    # but is refused.
    if isinstance(value, (str, bytes)) or getattr(value, "shape", None) != ():
        raise TypeError(
            f"report({name}=...): expected a number, got {value!r} of type {type(value).__name__}"
        )
    return float(value)
