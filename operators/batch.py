"""Operators that run a TensorFlow script on the rows of a bounded table."""

from __future__ import annotations

import re
import secrets
from typing import TYPE_CHECKING

from bridge.exceptions import ConfigurationError, SchemaError
from bridge.flink_errors import readable
from bridge.schema import Schema
from operators.accessors import ScriptParams, TrainParams
from operators.env import prepare_for_batch, shows_process_output
from operators.operator import BatchOperator, environment_of
from operators.param import WithParams
from operators.plan import plan
from operators.slots import Need, check_slots

if TYPE_CHECKING:
    from pyflink.table import Table


class _ScriptBatchOp(WithParams, BatchOperator):
    """Runs a script; the kinds differ in what becomes of it, and in where a default Python environment is looked up."""

    _kind: str
    _env_variable: str

    def linkFrom(self, *ops: BatchOperator) -> BatchOperator:
        """Feed the script. Its files are read now; it runs when a result is asked for.

        Args:
            ops: The table whose rows are shared among the workers; then any number of tables that every process gets whole,
                see `akdl.extra_inputs`.
        """
        name = type(self).__name__
        if not ops or not all(isinstance(op, BatchOperator) for op in ops):
            got = ", ".join(type(op).__name__ for op in ops) or "none"
            raise ConfigurationError(
                f"{name} takes one input and any number of extra inputs, each a BatchOperator, got {got}; "
                "BatchOperator.fromTable makes one of a table"
            )
        values = self._values_of_all()
        table = ops[0].getOutputTable()
        columns = self._selected(values["selectedCols"], ops[0].getColNames())
        if columns is not None:
            table = ops[0].select(columns).getOutputTable()
        extra = [op.getOutputTable() for op in ops[1:]]
        table_env = environment_of(table)
        if any(environment_of(each) is not table_env for each in extra):
            raise ConfigurationError(f"{name}: all inputs have to be of one environment")
        prepare_for_batch(table_env)
        settings = plan(
            name,
            self._kind,
            values,
            _schema(name, table),
            [_schema(f"{name}, extra input {number}", each) for number, each in enumerate(extra, 1)],
            int(table_env._j_tenv.execEnv().getParallelism()),
            self._env_variable,
            shows_process_output(),
        )
        need = Need.of_group(name, settings.num_workers, settings.num_ps)
        check_slots(table_env.get_config(), [need], only_total=True)
        from bridge.topology import run_script

        group = re.sub(r"\W", "_", f"{name}_{secrets.token_hex(4)}")
        try:
            self._table = run_script(table_env, table, extra, settings, group)
        except Exception as error:
            raise readable(error) from None
        self._groups = {group: need}
        for op in ops:
            self._groups.update(op._groups)
            self._models |= op._models
        self._fix()
        return self

    def _selected(self, selected: list[str] | None, existing: list[str]) -> list[str] | None:
        unknown = [column for column in selected or () if column not in existing]
        if unknown:
            raise ConfigurationError(
                f"{type(self).__name__}: parameter 'selectedCols' names {', '.join(map(repr, unknown))}; the input has "
                f"{', '.join(map(repr, existing))}"
            )
        return selected


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


def _schema(where: str, table: Table) -> Schema:
    fields = table.get_resolved_schema()
    try:
        return Schema.of_table(fields.get_column_names(), fields.get_column_data_types())
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from None
