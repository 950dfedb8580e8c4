"""What linking a script operator does, for batch and stream operators alike."""

from __future__ import annotations

import posixpath
import re
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from akdl.storage.checkpoint_folder import ask_to_stop
from akdl.storage.files import FileError
from bridge.errors.flink_errors import readable
from bridge.exceptions import ConfigurationError
from bridge.folders.temporary_places import IO_TMP_DIRS
from bridge.host.shipped import runs_elsewhere
from operators.base.job import environment_of, parallelism_of, schema_of
from operators.base.operator import Operator, inputs_of
from operators.batch_operator import BatchOperator
from operators.errors.exit_warnings import note_linked
from operators.flink.env import prepare_for_batch, prepare_for_stream, shows_process_output
from operators.flink.slots import Need, check_slots
from operators.params.accessors import ScriptParams, StreamParams, TrainParams
from operators.params.catalog import CHECKPOINT_DIR, LOG_DIR, PROGRESS
from operators.params.param import WithParams
from operators.prepare.input_names import warn_of_names
from operators.prepare.plan import plan
from operators.progress.record import run_name
from operators.progress.state import Shown
from operators.stream_operator import StreamOperator

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment


class ScriptOp(WithParams, Operator[Any]):
    """Runs a script; the kinds differ in what becomes of it, and in where a default Python environment is looked up."""

    _kind: str
    _env_variable: str
    _has_own_script = False  # and not one of the user's

    def stop(self) -> None:
        """Ask the training of this operator to end at its next step, as a success with the model so far.

        The last checkpoint stays. The runners of Keras and Estimators and the functions of `akdl.engine.train` obey within
        seconds; an own training loop can look for the file `STOP` in `task_config.checkpoint_dir`. Call it from another
        thread than the one that waits for the job, or from any program on an operator with the same `checkpointDir`.

        Raises:
            ConfigurationError: `checkpointDir` is not set, or cannot be reached.
        """
        name, address = type(self).__name__, self._get(CHECKPOINT_DIR)
        if address is None:
            raise ConfigurationError(
                f"{name}.stop(): the request travels by the folder of checkpoints, so set checkpointDir before the job starts"
            )
        try:
            ask_to_stop(address)
        except (FileError, OSError) as error:
            raise ConfigurationError(f"{name}.stop(): parameter 'checkpointDir': {error}") from None

    def _link(self, ops: tuple[Any, ...], prepare: Callable[[StreamTableEnvironment], None]) -> None:
        """Make this operator's table.

        Args:
            prepare: Gives the environment the settings that this kind of job needs.
        """
        name = type(self).__name__
        values = self._values_of_all()
        table = ops[0].getOutputTable()
        columns = values["selectedCols"]
        self._check_known("selectedCols", columns, ops[0].getColNames())
        if columns is not None:
            table = ops[0].select(columns).getOutputTable()
        extra = [op.getOutputTable() for op in ops[1:]]
        table_env = environment_of(table)
        if any(environment_of(each) is not table_env for each in extra):
            raise ConfigurationError(f"{name}: all inputs must belong to one environment")
        prepare(table_env)
        elsewhere = runs_elsewhere(table_env)
        settings = plan(
            name,
            self._kind,
            values,
            schema_of(name, table),
            [schema_of(f"{name}, extra input {number}", each) for number, each in enumerate(extra, 1)],
            parallelism_of(table_env),
            self._env_variable,
            shows_process_output(),
            elsewhere,
        )
        if self._kind == "train" and not self._has_own_script:
            warn_of_names(name, [column.name for column in settings.input_schema])
        if not elsewhere:
            settings = replace(settings, tmp_dirs=table_env.get_config().get(IO_TMP_DIRS, ""))
        need = Need.of_group(name, settings.num_workers, settings.num_ps)
        check_slots(table_env.get_config(), [need], only_total=True)
        from bridge.flink.script_graph import run_script

        shown_name = name if self._has_own_script else posixpath.basename(settings.main_script)
        suffix = secrets.token_hex(4)
        if settings.log_dir is not None:
            settings = replace(settings, log_dir=f"{settings.log_dir.rstrip('/')}/{run_name(shown_name, suffix)}")
        group = re.sub(r"\W", "_", f"{name}_{suffix}")
        try:
            self._table = run_script(table_env, table, extra, settings, group)
        except Exception as error:
            raise readable(error) from None
        self._groups = {group: need}
        self._show({group: Shown(shown_name, settings.size, settings.kind == "train", self._get(PROGRESS), self._get(LOG_DIR))})
        self._model_dir = settings.model_dir
        if not elsewhere:
            note_linked(group, name)
        self._also_starts_what(*ops)
        self._fix()


class _ScriptBatchOp(ScriptOp, BatchOperator):
    def linkFrom(self, *ops: BatchOperator) -> BatchOperator:
        """Feed the script. Its files are read now; it runs when a result is asked for.

        Args:
            ops: The table whose rows are shared among the workers; then any number of tables that every process gets whole,
                see `akdl.runner.extra_inputs`.
        """
        ops = inputs_of(ops)
        if not ops or not all(isinstance(op, BatchOperator) for op in ops):
            got = ", ".join(type(op).__name__ for op in ops) or "none"
            raise ConfigurationError(
                f"{type(self).__name__} takes one input and any number of extra inputs, each a BatchOperator, got {got}; "
                "BatchOperator.fromTable makes one of a table"
            )
        self._link(ops, prepare_for_batch)
        return self


class TensorFlowBatchOp(ScriptParams, _ScriptBatchOp):
    """Runs a TensorFlow 1 style script on the rows of a table; what it writes is the rows of the result.

    `pythonEnv` falls back to the variable TF115_PYTHON_ENV_PATH. Else this is `TensorFlow2BatchOp`: the same contract, the same
    parameters, the same errors.
    """

    _kind = "batch"
    _env_variable = "TF115_PYTHON_ENV_PATH"


class TensorFlow2BatchOp(ScriptParams, _ScriptBatchOp):
    """Runs a TensorFlow 2 script on the rows of a table; what it writes is the rows of the result.

    The script defines `main(task_config)`. `task_config.tf_context.batches(n)` gives the rows of this worker as dicts from
    column name to a tensor of shape [n], and `dataset_file` is a TFRecord file of them.
    `task_config.output_writer.write_batch` sends rows back: one array of shape [rows] per column of `outputSchemaStr`, of
    that column's dtype.

    The first input is dealt to the workers, further inputs go to all processes. `pythonEnv` falls back to the variable
    TF231_PYTHON_ENV_PATH.

    Example:
        op = TensorFlow2BatchOp(userFiles=["score.py"], mainScriptFile="score.py", outputSchemaStr="id BIGINT, score FLOAT",
                                numWorkers=2, numPSs=0)
        scores = BatchOperator.fromTable(table).link(op).collectToDataframe()

    Raises:
        ConfigurationError: A parameter is missing or wrong, a file is not there, or the script has no `main`.
        TaskError: The script failed; raised by the call that runs the job, with the lines of the script.
    """

    _kind = "batch"
    _env_variable = "TF231_PYTHON_ENV_PATH"


class TFTableModelTrainBatchOp(TrainParams, _ScriptBatchOp):
    """Runs a TensorFlow 1 style script that exports a SavedModel to `saved_model_dir`; the result is its model table.

    `pythonEnv` falls back to the variable TF115_PYTHON_ENV_PATH. Else this is `TF2TableModelTrainBatchOp`.
    """

    _kind = "train"
    _env_variable = "TF115_PYTHON_ENV_PATH"


class TF2TableModelTrainBatchOp(TrainParams, _ScriptBatchOp):
    """Runs a TensorFlow 2 script that exports a SavedModel to `saved_model_dir`; the result is its model table.

    The script defines `main(task_config)`, as for `TensorFlow2BatchOp`. The chief exports to `task_config.saved_model_dir`,
    or one folder below. The export is loaded once in a clean process. The table has the columns `model_id BIGINT,
    model_info STRING`.

    Example:
        train = TF2TableModelTrainBatchOp(userFiles=["train.py"], mainScriptFile="train.py", numWorkers=1, numPSs=0)
        model = BatchOperator.fromTable(table).link(train)

    Raises:
        ConfigurationError: A parameter is missing or wrong, a file is not there, or the script has no `main`.
        TaskError: The script failed or exported no model; raised by the call that runs the job.
    """

    _kind = "train"
    _env_variable = "TF231_PYTHON_ENV_PATH"


class _ScriptStreamOp(ScriptOp, StreamOperator):
    _kind = "stream"

    def linkFrom(self, *ops: StreamOperator) -> StreamOperator:
        """Feed the script. Its files are read now; it runs when a job with this operator runs."""
        ops = inputs_of(ops)
        if len(ops) != 1 or not isinstance(ops[0], StreamOperator):
            got = ", ".join(type(op).__name__ for op in ops) or "none"
            raise ConfigurationError(
                f"{type(self).__name__} takes one input, a StreamOperator, got {got}; StreamOperator.fromTable makes one of a "
                "table"
            )
        values = self._values_of_all()
        self._link(ops, lambda table_env: prepare_for_stream(table_env, values["chunkWait"]))
        return self


class TensorFlowStreamOp(StreamParams, _ScriptStreamOp):
    """Runs a TensorFlow 1 style script on a stream; what it writes is a stream.

    `pythonEnv` falls back to the variable TF115_PYTHON_ENV_PATH. Else this is `TensorFlow2StreamOp`.
    """

    _env_variable = "TF115_PYTHON_ENV_PATH"


class TensorFlow2StreamOp(StreamParams, _ScriptStreamOp):
    """Runs a TensorFlow 2 script on a stream; what it writes is a stream.

    The script defines `main(task_config)`, which runs as long as the stream. `task_config.tf_context.batches(n)` gives
    dicts from column name to a tensor of shape [n]. A batch is given when it is full: take a small n where rows are rare.
    `dataset_fn()` gives them as a dataset of serialized Examples. `output_writer.write_batch` sends rows on, one array of
    shape [rows] per column of `outputSchemaStr`. `pythonEnv` falls back to the variable TF231_PYTHON_ENV_PATH.

    Example:
        op = TensorFlow2StreamOp(userFiles=["score.py"], mainScriptFile="score.py", outputSchemaStr="id BIGINT, score FLOAT",
                                 numWorkers=1, numPSs=0)
        stream.link(op).print()
        StreamOperator.execute()

    Raises:
        ConfigurationError: A parameter is missing or wrong, a file is not there, or the script has no `main`.
        TaskError: The script failed; raised by the call that runs the job, or by `wait()` of its handle.
    """

    _env_variable = "TF231_PYTHON_ENV_PATH"
