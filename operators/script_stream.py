"""Operators that run a TensorFlow script on the rows of a stream."""

from __future__ import annotations

from bridge.exceptions import ConfigurationError
from operators.base_operator import inputs_of
from operators.flink.env import prepare_for_stream
from operators.params.accessors import StreamParams
from operators.script import ScriptOp
from operators.stream_operator import StreamOperator


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
        StreamOperator.fromTable(table).link(op).print()
        StreamOperator.execute()

    Raises:
        ConfigurationError: A parameter is missing or wrong, a file is not there, or the script has no `main`.
        TaskError: The script failed; raised by the call that runs the job, or by `wait()` of its handle.
    """

    _env_variable = "TF231_PYTHON_ENV_PATH"
