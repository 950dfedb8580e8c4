"""Operators that run a TensorFlow script on the rows of a table or a stream.

Linking such an operator is step 1 of the path of a row: parameters and columns become a frozen
`GroupSettings` and a part of the Flink graph. Nothing starts here. All mistakes that can be found
without a process are reported now, because the same mistake costs minutes once a job has been
submitted.
"""

from __future__ import annotations

import math
import posixpath
import re
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from akdl.storage.files import FileError
from akdl.storage.training_folders import ask_to_stop
from bridge.exceptions import ConfigurationError, refused_at
from bridge.host.places import IO_TMP_DIRS
from bridge.host.shipped import runs_elsewhere
from bridge.member import spare
from bridge.table_env import parallelism_of
from bridge.workarounds.beam_workers import limit_starts
from operators.base.job import Elastic, schema_of
from operators.base.operator import Operator
from operators.batch_operator import BatchOperator
from operators.errors.exit_warnings import note_linked
from operators.errors.flink_errors import readable
from operators.flink.env import prepare_for_batch, prepare_for_stream, shows_process_output
from operators.flink.slots import Need, check_scheduler, check_slots, free_slots
from operators.params.accessors import ScriptParams, StreamParams, TrainParams
from operators.params.param import WithParams
from operators.prepare.input_names import warn_of_names
from operators.prepare.plan import plan
from operators.progress.record import run_name
from operators.progress.state import Shown
from operators.stream_operator import StreamOperator

if TYPE_CHECKING:
    from pyflink.table import StreamTableEnvironment


class ScriptOp(WithParams, Operator[Any]):
    """Base of the operators that run a script.

    Batch and stream operators share parameters, checks and graph. They differ in the environment
    that they need, which they pass to `_link` as `prepare`.
    """

    _kind: str
    # Alink has this variable for the environment of TensorFlow 2.
    _env_variable = "TF231_PYTHON_ENV_PATH"
    # This is True for operators whose script is part of akdl.
    _has_own_script = False
    _checkpoint_param = "checkpointDir"

    def stop(self) -> None:
        """Request that the training ends at its next step, successfully and with the model so far.

        The last checkpoint is kept. The Keras and Estimator runners and the functions of
        `akdl.engine.train` stop within seconds; a custom training loop can check for the file
        `STOP` in `task_config.checkpoint_dir`. Call this method from a thread other than the one
        that waits for the job, or in another program on an operator with the same `checkpointDir`,
        or `checkpointFilePath` of operators that have it.

        Raises:
            ConfigurationError: This parameter is not set, or the folder cannot be reached.
        """
        name = self._name
        parameter = self._checkpoint_param
        address = self._values.get(parameter)
        if address is None:
            raise ConfigurationError(
                f"{name}.stop(): the request is a file in the checkpoint folder: set {parameter}"
                " before the job starts"
            )
        with refused_at(f"{name}.stop(): parameter {parameter!r}", FileError, OSError):
            ask_to_stop(address)

    def _link(
        self, ops: tuple[Any, ...], prepare: Callable[[StreamTableEnvironment], None]
    ) -> None:
        """Create this operator's table; `prepare` adjusts the environment to this kind of job.

        Args:
            ops: The table whose rows are distributed, and then the extra inputs, which every
                process receives in full.
            prepare: Called with the environment before anything is planned.

        Raises:
            ConfigurationError: A parameter is wrong, or the cluster can never have enough slots.
        """
        name = self._name
        values = self._values_of_all()
        columns = values["selectedCols"]
        self._check_known("selectedCols", columns, ops[0].getColNames())
        data = ops[0] if columns is None else ops[0].select(columns)
        table = data.getOutputTable()
        extra = [op.getOutputTable() for op in ops[1:]]
        table_env = data._table_env
        if any(op._table_env is not table_env for op in ops):
            raise ConfigurationError(f"{name}: all inputs must belong to one environment")
        # The settings of the environment come first, because the checks and the graph below read
        # them.
        prepare(table_env)
        # An elastic training changes the number of workers from job to job, while parts of files
        # are planned for one number. It therefore receives rows, never files.
        files = None if isinstance(values["numWorkers"], tuple) else data._readable_files()
        if files is None and values.get("shuffleParts") is not None:
            raise ConfigurationError(
                f"{name}: shuffleParts shuffles groups of rows in files: link a source of Parquet,"
                " Feather or ORC files, with nothing but select(...) of columns between, in an"
                " environment without checkpoints, and set one number as numWorkers; or remove"
                " shuffleParts"
            )
        elsewhere = runs_elsewhere(table_env)
        settings = plan(
            name,
            self._kind,
            values,
            schema_of(name, table),
            [
                schema_of(f"{name}, extra input {number}", each)
                for number, each in enumerate(extra, 1)
            ],
            parallelism_of(table_env),
            self._env_variable,
            shows_process_output(),
            elsewhere,
        )
        if self._kind == "train" and not self._has_own_script:
            # The scripts of akdl name their inputs themselves, so only a user's own script can fail
            # when Keras saves it with the names of the columns.
            warn_of_names(name, [column.name for column in settings.input_schema])
        if not elsewhere:
            settings = replace(settings, tmp_dirs=table_env.get_config().get(IO_TMP_DIRS, ""))
            # Only a local job has its Python workers in this program, and can use a process that
            # this program has prepared.
            limit_starts(settings.start_timeout_s)
            spare.prepare(settings)
        # The job may run much later, when slots in use are free again, so only the total is checked
        # now. `running` checks the free slots when the job starts.
        least = settings.least_workers or settings.num_workers
        need = Need.of_group(name, least, settings.num_ps)
        check_scheduler(table_env.get_config(), name)
        check_slots(table_env.get_config(), [need], only_total=True)
        from bridge.flink.script_graph import run_script

        shown_name = name if self._has_own_script else posixpath.basename(settings.main_script)
        # The suffix keeps two operators of one script, and two runs of one program, from sharing a
        # group and a folder of logs.
        suffix = secrets.token_hex(4)
        if settings.log_dir is not None:
            settings = replace(
                settings, log_dir=f"{settings.log_dir.rstrip('/')}/{run_name(shown_name, suffix)}"
            )
        # The group is part of the names of files, so it has only letters, digits and underscores.
        group = re.sub(r"\W", "_", f"{name}_{suffix}")
        try:
            self._table, resize = run_script(table_env, table, extra, settings, group, files)
        except Exception as error:
            raise readable(error) from None
        self._groups = {group: need}
        if resize is not None and settings.checkpoint_dir is not None:
            elastic = Elastic(
                shown_name,
                least,
                settings.num_workers,
                settings.num_ps,
                values["elasticWait"],
                settings.checkpoint_dir,
                resize,
            )
            # A job that the program starts with plain PyFlink does not pass through `elastic.run`,
            # so it gets the number that fits now.
            resize(elastic.workers_in(free_slots(table_env.get_config())))
            self._elastic = {group: elastic}
        shown = Shown(
            shown_name,
            settings.size,
            self._kind == "train",
            values["progress"],
            values["logDir"],
            start_timeout_s=settings.start_timeout_s,
        )
        self._show({group: shown})
        self._model_dir = settings.model_dir
        if not elsewhere:
            note_linked(group, name)
        self._include(*ops)
        self._fix()


class _ScriptBatchOp(ScriptOp, BatchOperator):
    _kind = "batch"

    def linkFrom(self, *ops: BatchOperator) -> BatchOperator:
        """Set the inputs of the script. Its files are read now; it runs when a result is requested.

        Args:
            ops: The table whose rows are distributed to the workers, and any number of tables that
                each process receives in full, see `akdl.runner.extra_inputs`.
        """
        self._link(
            self._inputs(ops, "one BatchOperator and any number of extra inputs", 1, math.inf),
            prepare_for_batch,
        )
        return self


class TensorFlowBatchOp(ScriptParams, _ScriptBatchOp):
    """Runs a TensorFlow 1 style script on the rows of a table; the result contains the rows that it
    writes.

    Contract, parameters and errors are the same as in `TensorFlow2BatchOp`.
    The default of `pythonEnv` is the environment variable TF115_PYTHON_ENV_PATH.
    """

    _env_variable = "TF115_PYTHON_ENV_PATH"


class TensorFlow2BatchOp(ScriptParams, _ScriptBatchOp):
    """Runs a TensorFlow 2 script on the rows of a table; the result contains the rows that it
    writes.

    The script defines `main(task_config)`. `task_config.tf_context.batches(n)` yields the rows of
    this worker as dicts from column name to a tensor of shape [n], and `dataset_file` is a TFRecord
    file of them. `task_config.output_writer.write_batch` adds rows to the result: one array of
    shape [rows] per column of `outputSchemaStr`, of that column's dtype.

    The rows of the first input are distributed to the workers; further inputs are sent to all
    processes. The default of `pythonEnv` is the environment variable TF231_PYTHON_ENV_PATH.

    Example:
        op = TensorFlow2BatchOp(
            userFiles=["score.py"],
            mainScriptFile="score.py",
            outputSchemaStr="id BIGINT, score FLOAT",
            numWorkers=2,
            numPSs=0,
        )
        scores = BatchOperator.fromTable(table).link(op).collectToDataframe()

    Raises:
        ConfigurationError: A parameter is missing or wrong, a file does not exist, or the script
            has no `main`.
        TaskError: The script failed; raised by the call that runs the job, with a traceback of the
            script.
    """


class TFTableModelTrainBatchOp(TrainParams, _ScriptBatchOp):
    """Runs a TensorFlow 1 style script that exports a SavedModel; the result is its model table.

    Contract, parameters and errors are the same as in `TF2TableModelTrainBatchOp`.
    The default of `pythonEnv` is the environment variable TF115_PYTHON_ENV_PATH.
    """

    _kind = "train"
    _env_variable = "TF115_PYTHON_ENV_PATH"


class TF2TableModelTrainBatchOp(TrainParams, _ScriptBatchOp):
    """Runs a TensorFlow 2 script that exports a SavedModel; the result is its model table.

    The script defines `main(task_config)`, as for `TensorFlow2BatchOp`. The chief exports the model
    to `task_config.saved_model_dir`, or one folder below; akdl loads it once in a new process to
    check it. The table has the columns `model_id BIGINT, model_info STRING`. Errors are the same as
    in `TensorFlow2BatchOp`; an export without a model is a TaskError.

    Example:
        train = TF2TableModelTrainBatchOp(
            userFiles=["train.py"], mainScriptFile="train.py", numWorkers=1, numPSs=0
        )
        model = BatchOperator.fromTable(table).link(train)
    """

    _kind = "train"


class _ScriptStreamOp(ScriptOp, StreamOperator):
    _kind = "stream"

    def linkFrom(self, *ops: StreamOperator) -> StreamOperator:
        """Set the input of the script. Its files are read now; it runs when a job with this
        operator runs.
        """
        ops = self._inputs(ops, "one StreamOperator")
        wait_s = self._values_of_all()["chunkWait"]
        self._link(ops, lambda table_env: prepare_for_stream(table_env, wait_s))
        return self


class TensorFlowStreamOp(StreamParams, _ScriptStreamOp):
    """Runs a TensorFlow 1 style script on a stream; the result is a stream of the rows that it
    writes.

    Contract, parameters and errors are the same as in `TensorFlow2StreamOp`.
    The default of `pythonEnv` is the environment variable TF115_PYTHON_ENV_PATH.
    """

    _env_variable = "TF115_PYTHON_ENV_PATH"


class TensorFlow2StreamOp(StreamParams, _ScriptStreamOp):
    """Runs a TensorFlow 2 script on a stream; the result is a stream of the rows that it writes.

    The script defines `main(task_config)`, which runs as long as the stream.
    `task_config.tf_context.batches(n)` yields dicts from column name to a tensor of shape [n]. A
    batch is yielded when it is full, so choose a small n if rows are rare. `dataset_fn()` returns
    the rows as a dataset of serialized Examples. `output_writer.write_batch` sends rows downstream,
    one array of shape [rows] per column of `outputSchemaStr`. The default of `pythonEnv` is the
    environment variable TF231_PYTHON_ENV_PATH. Errors are the same as in `TensorFlow2BatchOp`;
    `wait()` of a job's handle raises them too.

    Example:
        op = TensorFlow2StreamOp(
            userFiles=["score.py"],
            mainScriptFile="score.py",
            outputSchemaStr="id BIGINT, score FLOAT",
            numWorkers=1,
            numPSs=0,
        )
        stream.link(op).print()
        StreamOperator.execute()
    """
