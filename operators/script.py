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
from operators.base_operator import Operator, environment_of, parallelism_of, schema_of
from operators.errors.exit_warnings import note_linked
from operators.flink.env import shows_process_output
from operators.flink.slots import Need, check_slots
from operators.params.catalog import CHECKPOINT_DIR, LOG_DIR, PROGRESS
from operators.params.param import WithParams
from operators.prepare.input_names import warn_of_names
from operators.prepare.plan import plan
from operators.progress.record import run_name
from operators.progress.state import Shown

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
