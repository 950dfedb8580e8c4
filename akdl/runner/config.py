"""The one argument of a user's `main`: a task config.

Names and meanings follow Alink's documentation of its script operators, so a script written for Alink finds what it
expects. `dataset_file` and `dataset_length` wait until the whole share of this worker has arrived; everything else,
`tf_context.flink_stream_dataset()` included, is there at once.

A script may make one config of another: `TrainTaskConfig(saved_model_dir=folder, **task_config.__dict__)`. So each class takes
the arguments of the others and leaves them out.
"""

from typing import TYPE_CHECKING, Any, Callable, Dict, Generic, Optional, Sequence, TypeVar

from akdl.runner.reports import Reports

if TYPE_CHECKING:
    from akdl.rows.stream_rows import StreamRows
    from akdl.runner.context import TFContext
    from akdl.runner.extra_inputs import ExtraInput
    from akdl.runner.output_writer import OutputWriter


Value = TypeVar("Value")


class _OfRows(Generic[Value]):
    """An attribute that waits for the rows, unless it was set: then it is what it was set to."""

    def __init__(self, read: "Callable[[_FileTaskConfig], Value]") -> None:
        self._read = read
        self.__doc__ = read.__doc__

    def __get__(self, config: "Optional[_FileTaskConfig]", owner: Optional[type] = None) -> Any:
        return self if config is None else self._read(config)


class TaskConfig:
    """What every kind of task knows.

    Args:
        tf_context: Access to the rows and their columns, see `akdl.runner.context.TFContext`.
        num_workers: Number of workers, the chief among them; parameter servers do not count.
        cluster: The `cluster` entry of TF_CONFIG: role name to list of "host:port".
        task_type: The `task.type` entry of TF_CONFIG: "chief", "worker" or "ps".
        task_index: The `task.index` entry of TF_CONFIG.
        work_dir: A folder of this process alone, removed when the task ends.
        user_params: The operator's `userParams`. Numbers and booleans answer as text too, see `akdl.runner.user_params`.
            "ALINK:bc_k" is the path of extra input k as plain text.
        extra_inputs: The inputs that every process gets whole, in their order, see `akdl.runner.extra_inputs`.
        checkpoint_dir: The operator's `checkpointDir`, the same for all members and all attempts: a local path, or an address
            such as s3://bucket/folder; None when it is not set.
        log_dir: A folder for TensorBoard's files, in the operator's `logDir`, the same for all members of this run. Its files
            stay; None when `logDir` is not set.
        attempt: Number of Flink's attempt to run this group, from 0; a restart makes the next.
        reports: What `report` fills.
        others: Arguments of other task configs, which are left out.
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

    def report(self, step: Optional[int] = None, **metrics: Any) -> None:
        """Tell the Flink side how far the training is; any process may, at any time, as often as it likes.

        It costs microseconds, waits for nobody, and sends nothing itself: twice a second the latest value of each metric
        goes to the Flink side, which logs it every few seconds.

        Args:
            step: Steps made so far; without it, the last one that was reported.
            metrics: Numbers by name, such as `loss=0.25`. A tensor is read, which waits for its computation.

        Raises:
            TypeError: A value that is no number.
        """
        self.reports.add(step, metrics)


class _FileTaskConfig(TaskConfig):
    """A task whose rows are also kept in a file."""

    def __init__(self, *, dataset_file: Optional[str] = None, dataset_length: Optional[int] = None, **common: Any) -> None:
        super().__init__(**common)
        for name, value in (("dataset_file", dataset_file), ("dataset_length", dataset_length)):
            if value is not None:
                setattr(self, name, value)

    @_OfRows
    def dataset_file(self) -> str:
        """Path of a TFRecord file with this worker's rows as tf.train.Example; can be read any number of times.

        Waits until the last row is in it.
        """
        return self.tf_context.rows.file()

    @_OfRows
    def dataset_length(self) -> int:
        """Number of rows in `dataset_file`; waits like it."""
        return self.tf_context.rows.length()


class BatchTaskConfig(_FileTaskConfig):
    """The task config of `TensorFlowBatchOp` and `TensorFlow2BatchOp`.

    Args:
        output_writer: Sends rows of `outputSchemaStr` back to the table.
        common: See `TaskConfig`.
    """

    def __init__(self, *, output_writer: "OutputWriter", **common: Any) -> None:
        super().__init__(**common)
        self.output_writer = output_writer


class TrainTaskConfig(_FileTaskConfig):
    """The task config of operators whose result is a model.

    Args:
        saved_model_dir: The script exports a SavedModel into this folder.
        latest_ckpt_dir: Folder for the last checkpoint, or None when it was not asked for.
        common: See `TaskConfig`.
    """

    def __init__(self, *, saved_model_dir: str, latest_ckpt_dir: Optional[str] = None, **common: Any) -> None:
        super().__init__(**common)
        self.saved_model_dir = saved_model_dir
        self.latest_ckpt_dir = latest_ckpt_dir


class StreamTaskConfig(TaskConfig):
    """The task config of stream operators.

    Args:
        output_writer: Sends rows of `outputSchemaStr` back to the table.
        rows: The rows that `commit` speaks of; None where the operator does not wait for commits.
        common: See `TaskConfig`.
    """

    def __init__(self, *, output_writer: "OutputWriter", rows: "Optional[StreamRows]" = None, **common: Any) -> None:
        super().__init__(**common)
        self.output_writer = output_writer
        self._rows = rows
        self._committed = 0

    def dataset_fn(self) -> Any:
        """Return a tf.data.Dataset of serialized tf.train.Example over the rows as they come; it can be scanned once.

        Iterating waits for rows, and ends when the stream does. A second scan gives no rows, and a warning.
        """
        return self.tf_context.flink_stream_dataset()

    def commit(self, rows: Optional[int] = None) -> None:
        """Say that rows are done, together with all that was written so far: they are not replayed after a failure.

        Needs the operator's parameter replay="uncommitted"; then rows that were not committed are given again to the script
        that starts after a failure. Rows travel in chunks, and a chunk that is begun counts row by row only when `rows`
        says so.

        Args:
            rows: How many rows are done since the last commit, in the order of the dataset. Without it, all rows of
                the chunks that the dataset has left behind; too many, where `prefetch`, `shuffle` or parallel calls of the
                script read ahead.

        Raises:
            RuntimeError: The operator does not wait for commits.
            ValueError: More rows than the dataset has given.
        """
        if self._rows is None:
            raise RuntimeError('commit() needs replay="uncommitted" on the operator')
        done = self._rows.passed if rows is None else self._committed + rows
        if done > self._rows.taken or done < self._committed:
            if rows is None:
                return  # the chunks left behind were committed by number already
            raise ValueError(
                f"commit({rows}): {self._committed} rows were committed before, and the dataset has given {self._rows.taken}"
            )
        if done > self._committed:
            self._committed = done
            self.output_writer.commit(done)
