"""`python -m akdl.entry`: the start of a TensorFlow process.

It connects to its bridge, waits for the cluster, calls the user's `main` with a task config, and reports how that ended.

There are five ways in which the process ends:
- `main` returned or called `sys.exit(0)`: the process flushes its output and reports success. Threads that the script left
  running get `LEFT_THREADS_GRACE_S`, then the process exits. When one of them, or an exit handler, wanted to write rows, which
  are refused then, the status is `REFUSED_ROWS`, and the parent makes that an error.
- `main` raised or called `sys.exit(n)`: the process reports the traceback and exits with status 1.
- The parent has ended, even by SIGKILL: its end of the pipe closes. A thread then kills this process and all that the script
  has started. It has to be a thread, because the script may block indefinitely.
- The connection to the parent is lost: the process exits with status `ORPHANED`, or with `LINE_CLOSED` where the script has
  closed it.

Other processes remove the work folder when this process has ended.
"""

import atexit
import contextlib
import faulthandler
import functools
import gc
import json
import logging
import os
import platform
import signal
import sys
import threading
import traceback
from types import ModuleType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from akdl.errors.failure import failure_of
from akdl.errors.remedies import missing_column, missing_export, no_group
from akdl.errors.script_warnings import Oversights
from akdl.folders.private_file import private
from akdl.process.abandoned import abort_collectives
from akdl.process.channel import Channel, ChannelError
from akdl.process.parent import REFUSED_ROWS, exit_with_parent, kill_stopped_parent, take_settings
from akdl.process.preflight import installed
from akdl.process.proxies import bypass_proxies
from akdl.rows.file_rows import FileRows
from akdl.rows.once_rows import OnceRows
from akdl.rows.stream_rows import StreamRows
from akdl.runner.config import BatchTaskConfig, StreamTaskConfig, TaskConfig, TrainTaskConfig
from akdl.runner.context import Share, TFContext
from akdl.runner.extra_inputs import open_extra_inputs, text_path, write_text
from akdl.runner.output_writer import OutputWriter
from akdl.runner.reports import Reports
from akdl.runner.tensor_shapes import write_tensor_shapes
from akdl.runner.user_params import with_text
from akdl.serving.check import write_checked_model
from akdl.storage.files import is_remote
from akdl.storage.log_folder import LogFolder
from akdl.storage.model_archive import ModelError, find_keras_file
from akdl.user_code.keras_saves import LostModel, keras_3, prepare_saving
from akdl.user_code.module import (
    ESTIMATOR_FUNCTIONS,
    KERAS,
    MAIN,
    NotPythonError,
    UserModuleError,
    file_of,
    import_file,
    kind_of,
    kinds_in,
)
from akdl.wire import Cluster, Failure, Hello, Outcome, Progress, Success, Task
from akdl.wire.service import PROTOCOL

ORPHANED = 86
LEFT_THREADS_GRACE_S = 5.0
PROGRESS_S = 0.5
STACKS_FILE = "stacks.txt"  # in the private folder: where the threads are, written when SIGUSR2 asks for it
SAVED_MODEL, LATEST_CHECKPOINT = "savedmodel", "latest_ckpt"  # in the work folder
PRIVATE_FOLDER = ".akdl"  # inside the work folder; the rest of it belongs to the script

# Thresholds of the garbage collector while a script is imported. Nearly all objects that imports make stay: to look through
# those of TensorFlow again and again took a sixth of its start.
_LOADING = (50_000, 20, 20)

logger = logging.getLogger(__name__)

AnyRows = Union[FileRows, StreamRows]


class ScriptError(Exception):
    """The script cannot be run as a script of ours; the message says what to change."""


def main() -> int:
    """Run one task and return the exit status."""
    settings = take_settings(os.environ)
    exit_with_parent(int(settings["AKDL_PARENT_FD"]), _kill_group, ORPHANED)
    if "AKDL_STOPPED_S" in settings:
        kill_stopped_parent(os.getppid(), float(settings["AKDL_STOPPED_S"]))
    try:
        with open(os.path.join(settings["AKDL_WORK_DIR"], PRIVATE_FOLDER, STACKS_FILE), "w", opener=private) as stacks:
            faulthandler.register(signal.SIGUSR2, stacks)  # works even where a thread never gives up the interpreter lock
            return _run_task(settings)
    except ChannelError:
        # Nobody is left to report to, and perhaps nobody to read what is printed.
        with contextlib.suppress(OSError):
            traceback.print_exc()
        return ORPHANED


def _run_task(settings: Mapping[str, str]) -> int:
    channel = Channel(settings["AKDL_ADDRESS"], settings["AKDL_TOKEN"])
    attempt, python = int(settings["AKDL_ATTEMPT"]), platform.python_version()
    task = channel.connect(Hello(pid=os.getpid(), python_version=python, attempt=attempt, protocol=PROTOCOL))
    folder = os.path.join(task.work_dir, PRIVATE_FOLDER)
    if task.kind == "stream" or task.read_once:
        of_kind = OnceRows if task.read_once else StreamRows
        rows: AnyRows = of_kind(folder, channel.read(), task.input_columns, task.exact_doubles)
    else:
        extra_columns = [each.columns for each in task.extra_inputs]
        rows = FileRows(folder, channel.read(), task.input_columns, task.exact_doubles, extra_columns)
    writer = OutputWriter(channel, task.output_columns, task.chunk_wait_ms / 1000 or None)
    if isinstance(rows, StreamRows) and task.tells_passed:
        rows.tell = writer.pass_rows
    atexit.register(_exit_with_refused_rows, writer)  # before the script's own handlers, and so called after them
    cluster = channel.wait_for_cluster()
    reports = Reports()
    over = _report_progress(channel, rows, reports)
    surroundings: Dict[str, Any] = {"attempt": attempt, "reports": reports}
    logs = LogFolder(task.log_dir, folder) if task.log_dir else None
    surroundings["log_dir"] = logs and logs.path
    oversights = Oversights(task.work_dir)
    columns = [column.name for column in task.input_columns]
    with logs.kept() if logs is not None else contextlib.nullcontext():
        failure = _failure_of(lambda: _run_script(task, cluster, rows, writer, channel, surroundings, oversights), columns)
    over.set()
    if reports.latest().number:  # what the thread has not sent yet
        channel.report(_progress(rows, reports))
    if failure is not None:
        channel.finish(Outcome(failure=failure))
        return 1
    success = Success(rows_read=rows.progress().rows_read, rows_written=writer.rows_written, oversights=oversights.told())
    channel.finish(Outcome(success=success))
    _leave_threads_behind(writer)
    return 0


def _report_progress(channel: Channel, rows: AnyRows, reports: Reports) -> threading.Event:
    """Report how far the script has come, from a thread, until the returned event is set."""
    over = threading.Event()

    def report() -> None:
        is_aborted = False
        while not over.is_set():
            rows.wait_for_progress(PROGRESS_S)
            try:
                wishes = channel.report(_progress(rows, reports))
            except ChannelError:
                return  # whoever waits for the line hears of it
            if wishes.dataset_file and isinstance(rows, FileRows):
                rows.make_file()
            if wishes.returned and not is_aborted:
                is_aborted = abort_collectives(wishes.returned)

    threading.Thread(target=report, name="akdl-progress", daemon=True).start()
    return over


def _progress(rows: AnyRows, reports: Reports) -> Progress:
    progress = rows.progress()
    progress.report.CopyFrom(reports.latest())
    progress.exporting = reports.is_exporting
    return progress


def _run_script(
    task: Task,
    cluster: Cluster,
    rows: AnyRows,
    writer: OutputWriter,
    channel: Channel,
    surroundings: Mapping[str, Any],
    oversights: Oversights,
) -> None:
    # TF_CONFIG has to be there before the script's first line: a strategy built at module level reads it.
    os.environ["TF_CONFIG"] = cluster.tf_config
    bypass_proxies(os.environ, cluster.tf_config)
    user_main = find_main(task.main_script, task.work_dir, json.loads(task.user_params).get("runner"))
    task_config = _task_config(task, cluster, rows, writer, channel, surroundings)
    if not isinstance(user_main, functools.partial):  # runners keep files of their own there
        oversights.watch_files([SAVED_MODEL, LATEST_CHECKPOINT])
    if isinstance(task_config, TrainTaskConfig):
        prepare_saving(task.main_script, task_config.saved_model_dir, keras_3(installed("keras"), os.environ))
    try:
        user_main(task_config)
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            raise
    if isinstance(task_config, TrainTaskConfig) and task_config.task_type == "chief":
        missing = missing_export(task_config.saved_model_dir, task.work_dir)
        if missing:
            raise ScriptError(missing)
        task_config.reports.is_exporting = True
        left = find_keras_file(task_config.saved_model_dir)
        if left is not None:
            from akdl.keras.saving import export_file

            export_file(left)
        checkpoint, model_dir = _latest_checkpoint(task_config), task.model_dir or None
        write_checked_model(task_config.saved_model_dir, writer, checkpoint=checkpoint, model_dir=model_dir)
    writer.close()


def _latest_checkpoint(task_config: TrainTaskConfig) -> Optional[str]:
    """Return the folder with the checkpoint that is to come with the model; None without one."""
    folder = task_config.latest_ckpt_dir
    if folder is not None and not os.listdir(folder):
        logger.warning("the script has left no checkpoint in latest_ckpt_dir, so the model comes without one")
        return None
    return folder


def find_main(path: str, work_dir: str, runner: Optional[str]) -> Callable[[TaskConfig], Any]:
    """Import the main script under its own name, with its folder first on the path, and return what is to be called.

    A script in a package is imported as a part of it, so that its relative imports work.

    Args:
        runner: "main", "keras" or "estimator", where a script holds functions of several kinds; by default `main` comes first.
    """
    usual = gc.get_threshold()
    gc.set_threshold(*_LOADING)
    try:
        return _main_of(import_file(path, work_dir), runner)
    except NotPythonError as error:
        raise ScriptError(f"{error}: mainScriptFile must end in .py") from None
    finally:
        if gc.get_threshold() == _LOADING:  # the script has not set it
            gc.set_threshold(*usual)


def _main_of(module: ModuleType, runner: Optional[str]) -> Callable[[TaskConfig], Any]:
    kinds = kinds_in(module)
    if runner is None and not kinds:
        raise ScriptError(
            f"{file_of(module)} defines no function `main`: the main script needs `def main(task_config)`, or `awf_*` "
            "callbacks of Keras, or the four functions of an Estimator: " + ", ".join(ESTIMATOR_FUNCTIONS)
        )
    try:
        kind = kind_of(module, MAIN if runner is None and MAIN in kinds else runner)
    except UserModuleError as error:
        raise ScriptError(f"user parameter 'runner': {error}") from error
    if kind == MAIN:
        user_main: Callable[[TaskConfig], Any] = module.main
        return user_main
    # A script with a `main` loads neither of the runners.
    if kind == KERAS:
        from akdl.keras import operator as keras_runner

        return functools.partial(keras_runner.main, module=module)
    from akdl.estimator import functions_script as estimator_runner

    return functools.partial(estimator_runner.main, module=module)


def _task_config(
    task: Task,
    cluster: Cluster,
    rows: AnyRows,
    writer: OutputWriter,
    channel: Channel,
    surroundings: Mapping[str, Any],
) -> TaskConfig:
    def shares() -> List[Share]:
        return [Share(share.path, share.rows) for share in channel.wait_for_shares().shares]

    tf_config = json.loads(cluster.tf_config)
    _make_checkpoint_dir(task.checkpoint_dir)
    user_params = with_text(json.loads(task.user_params))
    # Scripts find the path of an extra input in their parameters and read it at once, so all rows are waited for.
    columns = [each.columns for each in task.extra_inputs]
    extra_inputs = []
    if columns and isinstance(rows, FileRows):
        files = rows.extra_files(write_text, cluster.extra_folder, cluster.waits_for_files)
        extra_inputs = open_extra_inputs([file.path for file in files], columns, task.exact_doubles)
        for number, file in enumerate(files, 1):
            os.symlink(file.text, text_path(task.work_dir, number))
    if isinstance(rows, (FileRows, OnceRows)) and tf_config["task"]["type"] != "ps":
        write_tensor_shapes(rows, task.input_columns, task.work_dir)
    for number in range(1, len(columns) + 1):
        user_params[f"ALINK:bc_{number}"] = text_path(task.work_dir, number)
    common: Dict[str, Any] = {
        "extra_inputs": extra_inputs,
        "tf_context": TFContext(
            rows,
            task.input_columns,
            task.exact_doubles,
            shares if isinstance(rows, FileRows) else None,
            is_alone=sum(map(len, tf_config["cluster"].values())) == 1,
        ),
        "num_workers": task.num_workers,
        "cluster": tf_config["cluster"],
        "task_type": tf_config["task"]["type"],
        "task_index": tf_config["task"]["index"],
        "work_dir": task.work_dir,
        "user_params": user_params,
        "checkpoint_dir": task.checkpoint_dir or None,
        **surroundings,
    }
    if task.kind == "train":
        checkpoint = None
        if user_params.get("ALINK:save_latest_checkpoint", False) not in (False, None, "", "false"):
            checkpoint = os.path.join(task.work_dir, LATEST_CHECKPOINT)
            os.makedirs(checkpoint, exist_ok=True)
        return TrainTaskConfig(saved_model_dir=os.path.join(task.work_dir, SAVED_MODEL), latest_ckpt_dir=checkpoint, **common)
    if isinstance(rows, StreamRows) and not rows.is_once:
        return StreamTaskConfig(output_writer=writer, rows=rows if task.commits else None, **common)
    return BatchTaskConfig(output_writer=writer, **common)


def _make_checkpoint_dir(address: str) -> None:
    """Make a local folder of checkpoints, so that one that cannot be written is told before hours of training."""
    if not address or is_remote(address):
        return
    try:
        os.makedirs(address, exist_ok=True)
    except OSError as error:
        raise ScriptError(f"checkpointDir {address}: the folder cannot be made on this host: {error.strerror}") from None
    if not os.access(address, os.W_OK | os.X_OK):
        raise ScriptError(f"checkpointDir {address}: this host's user may not write into the folder")


def _failure_of(run: Callable[[], None], columns: Sequence[str]) -> Optional[Failure]:
    """Run the script and return what it raised, as data, with our own frames cut off the traceback."""
    try:
        run()
    except (ScriptError, ModelError, LostModel) as error:
        return Failure(type="ScriptError", message=str(error))
    except SystemExit as leaving:
        return _as_failure(leaving, f"the script called sys.exit({_shown_code(leaving)})")
    except BaseException as error:  # KeyboardInterrupt too: any way out of the script has to be reported
        failure = _as_failure(error)
        failure.message = no_group(error) + failure.message + missing_column(error, columns)
        return failure
    return None


def _shown_code(leaving: SystemExit) -> str:
    return repr(leaving.code) if isinstance(leaving.code, (int, str)) else f"a {type(leaving.code).__name__}"


def _as_failure(error: BaseException, message: Optional[str] = None) -> Failure:
    trace = error.__traceback__
    while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return failure_of(error, message, trace)


def _is_ours(file_name: str) -> bool:
    return file_name in (__file__, import_file.__code__.co_filename) or file_name.startswith("<frozen importlib")


def _kill_group() -> None:
    """Kill this process and all that the script has started."""
    if os.getpgrp() == os.getpid():  # else somebody tries it by hand
        os.killpg(0, signal.SIGKILL)


def _leave_threads_behind(writer: OutputWriter) -> None:
    """Let the interpreter exit by itself, but limit its wait for threads that the script left running."""
    _flush_streams()

    def exit_anyway() -> None:
        left = [thread.name for thread in threading.enumerate() if not thread.daemon]
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write("akdl: the script ended but left threads running: {}\n".format(", ".join(left)))
        _exit_with_refused_rows(writer)
        _flush_streams()
        os._exit(0)

    timer = threading.Timer(LEFT_THREADS_GRACE_S, exit_anyway)
    timer.daemon = True
    timer.start()


def _exit_with_refused_rows(writer: OutputWriter) -> None:
    """Exit at once when rows were refused because `main` had returned."""
    if writer.has_refused:
        _flush_streams()
        os._exit(REFUSED_ROWS)


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # the script may have closed or replaced it
            stream.flush()


if __name__ == "__main__":
    sys.exit(main())
