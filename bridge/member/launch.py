"""How the TensorFlow process of a member is started: its task, interpreter, variables and GPUs."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from akdl.process.parent import STOPPED_S
from akdl.process.preflight import TF1_OPERATOR
from akdl.wire import ExtraInput, Task
from bridge.exceptions import ConfigurationError
from bridge.folders.work_folder import WorkFolder
from bridge.group.roles import label
from bridge.host.console import LogFile
from bridge.host.gpus import Lease, inventory, lease
from bridge.host.interpreter import means_tensorflow_1, open_interpreter
from bridge.host.process import ChildProcess
from bridge.host.variables import variables
from bridge.schema import table_columns
from bridge.settings import UNCOMMITTED, GroupSettings
from bridge.workarounds.beam_workers import is_worker_process

logger = logging.getLogger(__name__)

_LOG_FILES = 10  # Flink's default


def task_of(settings: GroupSettings, folder: WorkFolder) -> Task:
    """Return what a process is told when it has connected."""
    return Task(
        operator=settings.operator,
        kind=settings.kind,
        work_dir=folder.path,
        main_script=os.path.join(folder.path, settings.main_script),
        user_params=settings.user_params,
        num_workers=settings.num_workers,
        exact_doubles=settings.exact_doubles,
        input_columns=table_columns(settings.script_schema),
        output_columns=table_columns(settings.output_schema),
        chunk_wait_ms=int(settings.chunk_wait_s * 1000) if settings.kind == "stream" else 0,
        commits=settings.replay == UNCOMMITTED,
        reports_passed=settings.carries_event_time and settings.replay != UNCOMMITTED,
        checkpoint_dir=settings.checkpoint_dir or "",
        log_dir=settings.log_dir or "",
        model_dir=settings.model_dir or "",
        read_once=settings.read_once,
        extra_inputs=[ExtraInput(columns=table_columns(schema)) for schema in settings.extra_schemas],
    )


def launch(
    settings: GroupSettings,
    index: int,
    attempt: int,
    folder: WorkFolder,
    address: str,
    token: str,
    on_line: Callable[[str], None],
    on_exit: Callable[[], None],
) -> ChildProcess:
    """Start a process.

    Raises:
        ConfigurationError: There is no such interpreter, it does not run here, or there are too few GPUs.
    """
    python = open_interpreter(settings.operator, settings.python)
    gpus = None
    try:
        environment = variables(settings.intra_op_parallelism, os.environ, python.path, folder, settings.env_vars)
        environment.update(AKDL_ADDRESS=address, AKDL_TOKEN=token, AKDL_ATTEMPT=str(attempt), AKDL_WORK_DIR=folder.path)
        if is_worker_process():  # not this program: people stop what they have started by Ctrl-Z
            environment["AKDL_STOPPED_S"] = str(STOPPED_S)
        if index == 0 and means_tensorflow_1(settings.operator):
            environment[TF1_OPERATOR] = settings.operator
        gpus = _lease_gpus(settings, index)
        if gpus is not None:
            environment["CUDA_VISIBLE_DEVICES"] = gpus.visible
        command = [python.path, "-m", "akdl.process.preflight", "akdl.entry"]
        fds = [*folder.fds, *python.fds, *(gpus.fds if gpus is not None else ())]
        with python.starting(settings.operator):
            return ChildProcess(command, environment, folder.path, on_line, on_exit, settings.log_lines, fds)
    finally:  # from its start on, the process itself holds what it needs
        if gpus is not None:
            gpus.release()
        python.release()


def _lease_gpus(settings: GroupSettings, index: int) -> Lease | None:
    """Lease what was asked for of a worker, nothing for a parameter server; None where nothing is known of GPUs."""
    name = f"{settings.operator}, {label(index, settings.num_workers)}"
    try:
        found = inventory(os.environ)
        if found is None:
            return None
        # After a restart the former process may still be about to end.
        wanted = settings.gpus_per_worker if index < settings.num_workers else 0
        leased = lease(wanted, found, settings.stop_timeout_s)
    except ConfigurationError as error:
        raise ConfigurationError(f"{name}: {error}") from None
    if found:
        logger.info("%s: GPUs %s", name, ", ".join(leased.devices) or "none, as none was asked for or is free")
    return leased


def open_log_file(name: str, most_bytes: int, most_files: int | None) -> LogFile | None:
    """Open a log file beside Flink's own where Flink says where that is, as on a TaskManager.

    Args:
        most_files: See `LogFile`; None for as many as Flink keeps of its own (`env.log.max`).
    """
    folder = os.environ.get("FLINK_LOG_DIR", "")
    if not os.path.isdir(folder):
        return None
    flinks = os.environ.get("MAX_LOG_FILE_NUMBER", "")
    files = most_files or (int(flinks) if flinks.isdigit() and int(flinks) else _LOG_FILES)
    return LogFile(os.path.join(folder, f"akdl-{name}.log"), most_bytes, files)
