"""Operators that run a TensorFlow script on the rows of a bounded table."""

from __future__ import annotations

import re
import secrets

from bridge.exceptions import ConfigurationError
from bridge.schema import Schema
from operators.accessors import ScriptParams
from operators.env import AlinkGlobalConfiguration, getMLEnv, prepare_for_batch
from operators.operator import BatchOperator, environment_of
from operators.plan import plan


class _ScriptBatchOp(ScriptParams, BatchOperator):
    """Runs a script; the kinds differ in where a default Python environment is looked up."""

    _env_variable: str

    def __init__(self, **values: object) -> None:
        ScriptParams.__init__(self, **values)  # type: ignore[arg-type]
        BatchOperator.__init__(self)

    def linkFrom(self, *ops: BatchOperator) -> BatchOperator:
        """Feed the script with one table. The script's files are read now; it runs when a result is asked for."""
        name = type(self).__name__
        if len(ops) != 1:
            raise ConfigurationError(f"{name} takes one input so far, got {len(ops)}")
        values = self._values_of_all()
        table = ops[0].getOutputTable()
        columns = self._selected(ops[0].getColNames())
        if columns is not None:
            table = ops[0].select(columns).getOutputTable()
        table_env = environment_of(table)
        prepare_for_batch(table_env)
        fields = table.get_resolved_schema()
        settings = plan(
            name,
            values,
            Schema.of_table(fields.get_column_names(), fields.get_column_data_types()),
            int(table_env.get_config().get("parallelism.default", "1")),
            self._env_variable,
            AlinkGlobalConfiguration.isPrintProcessInfo() or getMLEnv().debug_mode,
        )
        from bridge.topology import run_script

        group = re.sub(r"\W", "_", f"{name}_{secrets.token_hex(4)}")
        self._table = run_script(table_env, table, settings, group)
        self._groups = ops[0]._groups | {group}
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
