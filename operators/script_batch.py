"""Operators that run a TensorFlow script on the rows of a bounded table."""

from __future__ import annotations

from bridge.exceptions import ConfigurationError
from operators.base_operator import inputs_of
from operators.batch_operator import BatchOperator
from operators.flink.env import prepare_for_batch
from operators.params.accessors import ScriptParams, TrainParams
from operators.script import ScriptOp


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
