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
    """Runs a TensorFlow 1 style script; `pythonEnv` falls back to the variable TF115_PYTHON_ENV_PATH."""

    _kind = "batch"
    _env_variable = "TF115_PYTHON_ENV_PATH"


class TensorFlow2BatchOp(ScriptParams, _ScriptBatchOp):
    """Runs a TensorFlow 2 script; `pythonEnv` falls back to the variable TF231_PYTHON_ENV_PATH."""

    _kind = "batch"
    _env_variable = "TF231_PYTHON_ENV_PATH"


class TFTableModelTrainBatchOp(TrainParams, _ScriptBatchOp):
    """Runs a TensorFlow 1 style script that exports a SavedModel to `saved_model_dir`; the result is its model table."""

    _kind = "train"
    _env_variable = "TF115_PYTHON_ENV_PATH"


class TF2TableModelTrainBatchOp(TrainParams, _ScriptBatchOp):
    """Runs a TensorFlow 2 script that exports a SavedModel to `saved_model_dir`; the result is its model table."""

    _kind = "train"
    _env_variable = "TF231_PYTHON_ENV_PATH"
