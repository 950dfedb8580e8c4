"""Operators that run a TensorFlow script on the rows of a bounded table."""

from __future__ import annotations

import re
import secrets

from bridge.exceptions import ConfigurationError, SchemaError
from bridge.flink_errors import readable
from bridge.schema import Schema
from operators.accessors import ScriptParams
from operators.env import prepare_for_batch, shows_process_output
from operators.operator import BatchOperator, environment_of
from operators.plan import plan
from operators.slots import Need, check_slots


class _ScriptBatchOp(ScriptParams, BatchOperator):
    """Runs a script; the kinds differ in where a default Python environment is looked up."""

    _env_variable: str

    def linkFrom(self, *ops: BatchOperator) -> BatchOperator:
        """Feed the script with one table. The script's files are read now; it runs when a result is asked for."""
        name = type(self).__name__
        if len(ops) != 1 or not isinstance(ops[0], BatchOperator):
            got = ", ".join(type(op).__name__ for op in ops) or "none"
            raise ConfigurationError(
                f"{name} takes one input so far, a BatchOperator, got {got}; BatchOperator.fromTable makes one of a table"
            )
        values = self._values_of_all()
        table = ops[0].getOutputTable()
        columns = self._selected(ops[0].getColNames())
        if columns is not None:
            table = ops[0].select(columns).getOutputTable()
        table_env = environment_of(table)
        prepare_for_batch(table_env)
        fields = table.get_resolved_schema()
        try:
            input_schema = Schema.of_table(fields.get_column_names(), fields.get_column_data_types())
        except SchemaError as error:
            raise SchemaError(f"{name}: {error}") from None
        settings = plan(
            name,
            values,
            input_schema,
            int(table_env._j_tenv.execEnv().getParallelism()),
            self._env_variable,
            shows_process_output(),
        )
        need = Need.of_group(name, settings.num_workers, settings.num_ps)
        check_slots(table_env.get_config(), [need], only_total=True)
        from bridge.topology import run_script

        group = re.sub(r"\W", "_", f"{name}_{secrets.token_hex(4)}")
        try:
            self._table = run_script(table_env, table, settings, group)
        except Exception as error:
            raise readable(error) from None
        self._groups = {**ops[0]._groups, group: need}
        self._fix()
        return self

    def _selected(self, existing: list[str]) -> list[str] | None:
        selected = self.getSelectedCols()
        unknown = [column for column in selected or () if column not in existing]
        if unknown:
            raise ConfigurationError(
                f"{type(self).__name__}: parameter 'selectedCols' names {', '.join(map(repr, unknown))}; the input has "
                f"{', '.join(map(repr, existing))}"
            )
        return selected


class TensorFlowBatchOp(_ScriptBatchOp):
    """Runs a TensorFlow 1 style script; `pythonEnv` falls back to the variable TF115_PYTHON_ENV_PATH."""

    _env_variable = "TF115_PYTHON_ENV_PATH"


class TensorFlow2BatchOp(_ScriptBatchOp):
    """Runs a TensorFlow 2 script; `pythonEnv` falls back to the variable TF231_PYTHON_ENV_PATH."""

    _env_variable = "TF231_PYTHON_ENV_PATH"
