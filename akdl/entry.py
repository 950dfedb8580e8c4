"""`python -m akdl.entry`: the start of a TensorFlow process, which calls the user's `main` and
reports the outcome.

Exit statuses:
- 0 and 1: `main` returned or raised, and the outcome was reported. After a return, threads that the
  script left running get `LEFT_THREADS_GRACE_S`. After an exception the bridge ends them: it waits
  two seconds for the last output, and then stops the process with SIGTERM.
- `REFUSED_ROWS`: `main` returned, then a thread or an exit handler tried to write rows; the parent
  reports this as an error.
- `ORPHANED`: the channel to the parent broke, or its end of the pipe closed because it has ended,
  even by SIGKILL. A thread watches the pipe and kills the children too, as the script may block
  indefinitely.
- `CHANNEL_CLOSED`: the script has closed the channel.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import gc
import inspect
import json
import logging
import os
import platform
import signal
import sys
import threading
import traceback
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Callable, Mapping, Union

from akdl.process.abandoned import abort_collectives
from akdl.process.activity import ActivityWatch, WorkClock, script_stacks
from akdl.process.channel import Channel, ChannelError
from akdl.process.parent import (
    REFUSED_ROWS,
    exit_with_parent,
    flush_streams,
    kill_stopped_parent,
    leave_threads_behind,
    take_settings,
)
from akdl.process.preflight import SPARE_FD, installed
from akdl.process.ranks import bypass_proxies, worker_variables
from akdl.process.spare import wait_for_script
from akdl.rows.file_rows import FileRows
from akdl.rows.stream_rows import OnceRows, StreamRows
from akdl.runner.config import (
    BatchTaskConfig,
    Reports,
    StreamTaskConfig,
    TaskConfig,
    TrainTaskConfig,
)
from akdl.runner.context import Share, TFContext, write_tensor_shapes
from akdl.runner.cuts import Cuts, StateError
from akdl.runner.extra_inputs import ExtraInput, text_path, write_text
from akdl.runner.kept_failure import (
    LATEST_CHECKPOINT,
    PRIVATE_FOLDER,
    SAVED_MODEL,
    keep_failure,
    seed_python,
    seed_tensorflow,
)
from akdl.runner.output_writer import OutputWriter
from akdl.runner.user_params import with_text
from akdl.serving.saved_model import write_checked_model
from akdl.storage.files import is_remote
from akdl.storage.local_files import private
from akdl.storage.model_forms import ModelError, find_keras_file
from akdl.storage.training_folders import LogFolder
from akdl.tf_version import choose_keras_backend, keras_3
from akdl.user_code.failure import failure_of
from akdl.user_code.keras_saves import LostModel, prepare_saving
from akdl.user_code.module import KERAS, MAIN, NotPythonError, UserModuleError, import_file, kind_of
from akdl.user_code.remedies import missing_column, missing_export, no_group
from akdl.user_code.script_warnings import ScriptWarnings
from akdl.wire import Cluster, Failure, Hello, Outcome, Progress, Success, Task
from akdl.wire.service import PROTOCOL

ORPHANED = 86
# Seconds between two reports. Streams report earlier, when their script has taken rows.
PROGRESS_S = 0.5
# A file in the private folder, into which faulthandler writes the stacks of all threads on SIGUSR2.
STACKS_FILE = "stacks.txt"

# Thresholds of the garbage collector while a script is imported. Nearly all objects that imports
# create are permanent, and scanning TensorFlow's objects repeatedly took a sixth of its start.
_LOADING = (50_000, 20, 20)

logger = logging.getLogger(__name__)

AnyRows = Union[FileRows, StreamRows]


class ScriptError(Exception):
    """The script cannot be run; the message says what to change."""


@dataclass(frozen=True)
class Surroundings:
    task: Task
    cluster: Cluster
    rows: AnyRows
    writer: OutputWriter
    cuts: Cuts | None
    channel: Channel
    reports: Reports
    warnings: ScriptWarnings
    attempt: int
    log_dir: str | None


def main() -> int:
    # A spare process has neither the address nor the token of a bridge at its start. They arrive
    # through its pipe, so it has to wait before the variables are read.
    if SPARE_FD in os.environ:
        wait_for_script(os.environ)
    settings = take_settings(os.environ)
    # The pipe is watched before the first call of the channel, because calls have no deadline: a
    # process whose parent dies while it connects would otherwise stay.
    exit_if_closed = exit_with_parent(int(settings["AKDL_PARENT_FD"]), _kill_group, ORPHANED)
    # The variable is set where the parent is a Python worker of Flink. In a local job the parent is
    # the user's program, which may be suspended with Ctrl-Z.
    if "AKDL_STOPPED_S" in settings:
        kill_stopped_parent(os.getppid(), float(settings["AKDL_STOPPED_S"]))
    path = os.path.join(settings["AKDL_WORK_DIR"], PRIVATE_FOLDER, STACKS_FILE)
    with open(f"{path}~", "w", opener=private) as stacks:
        # By default SIGUSR2 ends a process. faulthandler restores the handler that it found when
        # the interpreter ends, so a request for stacks that comes later is ignored.
        signal.signal(signal.SIGUSR2, signal.SIG_IGN)
        # A handler in Python would wait for the main thread, which may be in an endless loop or in
        # a call that never releases the interpreter lock. faulthandler writes from C.
        faulthandler.register(signal.SIGUSR2, stacks)
        # The bridge sends the signal only where this file exists, so it gets its name after the
        # handler is in place.
        os.rename(f"{path}~", path)
        try:
            return _run_task(settings)
        except ChannelError:
            # A script that closes all descriptors breaks the channel too. A call often fails before
            # the watching thread looks, so the cause is looked for here as well.
            exit_if_closed()
            # The bridge reads this output, and may have ended too.
            with contextlib.suppress(OSError):
                traceback.print_exc()
            return ORPHANED


def _run_task(settings: Mapping[str, str]) -> int:
    channel = Channel(settings["AKDL_ADDRESS"], settings["AKDL_TOKEN"])
    attempt, python = int(settings["AKDL_ATTEMPT"]), platform.python_version()
    task = channel.connect(
        Hello(pid=os.getpid(), python_version=python, attempt=attempt, protocol=PROTOCOL)
    )
    # The variables for a replay are copied now: the script may change them, and `take_settings` has
    # removed the token already.
    environment = dict(os.environ)
    logs = LogFolder(task.log_dir, os.path.join(task.work_dir, PRIVATE_FOLDER))
    surroundings = surround(channel, task, attempt, logs.path or None)
    rows, writer, reports = surroundings.rows, surroundings.writer, surroundings.reports

    def exit_if_refused() -> None:
        """End the process at once if rows were written too late, with a status that says so."""
        if writer.has_refused:
            flush_streams()
            os._exit(REFUSED_ROWS)

    # Registered before the script registers its own handlers, so it is called after them.
    atexit.register(exit_if_refused)
    over = _report_progress(
        channel, rows, reports, ActivityWatch(task.work_dir, lambda: rows.is_waiting)
    )
    with logs.kept():
        failure = _failure_of(surroundings)
        if failure is not None and task.keeps_failure and logs.path:
            kept = keep_failure(
                logs.path, task, surroundings.cluster, attempt, rows, environment, failure
            )
            failure.message += f"\n{kept}"
    over.set()
    # The thread may not have sent the script's latest values yet.
    if reports.latest().number:
        channel.report(_progress(rows, reports))
    if failure is not None:
        channel.finish(Outcome(failure=failure))
        return 1
    warnings = surroundings.warnings.sentences()
    success = Success(
        rows_read=rows.progress().rows_read, rows_written=writer.rows_written, warnings=warnings
    )
    channel.finish(Outcome(success=success))
    leave_threads_behind(exit_if_refused)
    return 0


def surround(channel: Channel, task: Task, attempt: int, log_dir: str | None) -> Surroundings:
    """Start to receive the rows, and wait for the group."""
    # The rows are received from here on, while the other members of the group still start.
    rows = _rows_of(task, os.path.join(task.work_dir, PRIVATE_FOLDER), channel)
    writer = OutputWriter(channel, task.output_columns, task.chunk_wait_ms / 1000 or None)
    if isinstance(rows, StreamRows):
        rows.keeps_last = task.keeps_failure
    cluster = channel.wait_for_cluster()
    cuts = cuts_of(task, cluster, rows, writer)
    return Surroundings(
        task,
        cluster,
        rows,
        writer,
        cuts,
        channel,
        Reports(),
        ScriptWarnings(task.work_dir),
        attempt,
        log_dir,
    )


def cuts_of(task: Task, cluster: Cluster, rows: AnyRows, writer: OutputWriter) -> Cuts | None:
    """Return the cuts of a script whose rows come from a stream; a bounded table starts again from
    its first row.
    """
    if not isinstance(rows, StreamRows) or rows.is_once:
        return None
    publish = None
    if task.publish_dir:

        def publish(folder: str, learnt: str) -> str:
            # Imported late: few scripts publish models.
            from akdl.serving import model_stream

            return model_stream.publish(folder, task.publish_dir, learnt)

    return Cuts(
        rows,
        writer,
        task,
        cluster.state,
        _is_alone(json.loads(cluster.tf_config)["cluster"]),
        publish,
    )


def _is_alone(cluster: Mapping[str, list[str]]) -> bool:
    return sum(map(len, cluster.values())) == 1


def _rows_of(task: Task, folder: str, channel: Channel) -> AnyRows:
    common = folder, channel.read(), task.input_columns, task.exact_doubles
    if task.read_once:
        return OnceRows(*common)
    if task.kind == "stream":
        return StreamRows(*common, task.time_column)
    return FileRows(*common, [each.columns for each in task.extra_inputs])


def _report_progress(
    channel: Channel, rows: AnyRows, reports: Reports, watch: ActivityWatch
) -> threading.Event:
    over = threading.Event()

    def report() -> None:
        is_aborted, clock = False, WorkClock()
        while not over.is_set():
            rows.wait_for_progress(PROGRESS_S)
            try:
                progress = _progress(rows, reports)
                progress.worked_s, progress.stack = clock.look(), script_stacks()
                progress.activity, progress.place = watch.now
                wishes = channel.report(progress)
            except ChannelError:
                # The thread of the script gets the same error from its own calls, and ends the
                # process.
                return
            if wishes.dataset_file and isinstance(rows, FileRows):
                rows.make_file()
            # The names of returned workers arrive with each further answer, so the abort is tried
            # until it has found an operation.
            if wishes.returned and not is_aborted:
                is_aborted = abort_collectives(wishes.returned)

    threading.Thread(target=report, name="akdl-progress", daemon=True).start()
    return over


def _progress(rows: AnyRows, reports: Reports) -> Progress:
    progress = rows.progress()
    progress.report.CopyFrom(reports.latest())
    progress.exporting = reports.is_exporting
    return progress


def run_script(surroundings: Surroundings) -> None:
    task, cluster = surroundings.task, surroundings.cluster
    # These are needed before the script's first line: a strategy created at module level reads
    # TF_CONFIG.
    os.environ.update(
        worker_variables(cluster.tf_config, os.environ.get("CUDA_VISIBLE_DEVICES")),
        TF_CONFIG=cluster.tf_config,
    )
    # The variables are set before the script is imported, because TensorFlow's servers read them.
    bypass_proxies(os.environ, cluster.tf_config)
    if task.keeps_failure:
        # Modules of the script may draw random numbers while they are imported.
        seed_python(os.environ)
    user_main = find_main(
        task.main_script, task.work_dir, json.loads(task.user_params).get("runner")
    )
    if task.keeps_failure:
        # TensorFlow is seeded behind the import, because only then it is decided whether the script
        # uses it and whether it has a seed of its own.
        seed_tensorflow(os.environ)
    task_config = _task_config(surroundings)
    # A partial is a runner of akdl, whose files in the work folder are not left there by the user.
    if not isinstance(user_main, functools.partial):
        surroundings.warnings.watch_files([SAVED_MODEL, LATEST_CHECKPOINT])
    if isinstance(task_config, TrainTaskConfig):
        prepare_saving(
            task.main_script, task_config.saved_model_dir, keras_3(installed("keras"), os.environ)
        )
    try:
        user_main(task_config)
    except SystemExit as leaving:
        # Scripts written as programs end with sys.exit(), which means success without a code or
        # with 0.
        if leaving.code not in (None, 0):
            raise
    if isinstance(task_config, TrainTaskConfig) and task_config.task_type == "chief":
        _send_model(task_config, surroundings)
    # The last cut is made behind all rows that the script has written, and before the writer
    # refuses further messages.
    if surroundings.cuts is not None:
        surroundings.cuts.end()
    surroundings.writer.close()


def _send_model(task_config: TrainTaskConfig, surroundings: Surroundings) -> None:
    folder, checkpoint = task_config.saved_model_dir, task_config.latest_ckpt_dir
    missing = missing_export(folder, task_config.work_dir)
    if missing:
        raise ScriptError(missing)
    task_config.reports.is_exporting = True
    # A script that trains with another framework exports what it likes, which is sent unchanged.
    as_is = "tensorflow" not in sys.modules or bool(_keras_backend())
    keras_file = None if as_is else find_keras_file(folder)
    if keras_file is not None:
        from akdl.keras.saving import export_file

        export_file(keras_file)
    if checkpoint is not None and not os.listdir(checkpoint):
        logger.warning(
            "the script wrote no checkpoint to latest_ckpt_dir, so the model is stored without one"
        )
        checkpoint = None
    write_checked_model(
        folder,
        surroundings.writer,
        checkpoint=checkpoint,
        model_dir=surroundings.task.model_dir or None,
        as_is=as_is,
    )


def _keras_backend() -> str:
    return choose_keras_backend(installed("keras"), os.environ)


def find_main(path: str, work_dir: str, runner: str | None) -> Callable[[TaskConfig], Any]:
    """Import the main script; one with functions of several kinds is run by its `main`, unless
    `runner` names another kind.
    """
    _keras_backend()  # before the script imports Keras
    usual = gc.get_threshold()
    gc.set_threshold(*_LOADING)
    try:
        return _main_of(import_file(path, work_dir), runner)
    except NotPythonError as error:
        raise ScriptError(f"{error}: mainScriptFile must end in .py") from None
    finally:
        if gc.get_threshold() == _LOADING:  # the script has not set it
            gc.set_threshold(*usual)


def _main_of(module: ModuleType, runner: str | None) -> Callable[[TaskConfig], Any]:
    try:
        kind = kind_of(module, runner)
    except UserModuleError as error:
        raise ScriptError(str(error)) from error
    if kind == MAIN:
        user_main: Callable[[TaskConfig], Any] = module.main
        # A call of these runs no line, and the rows would be missing without an error.
        kinds = inspect.isgeneratorfunction, inspect.iscoroutinefunction, inspect.isasyncgenfunction
        if any(is_kind(user_main) for is_kind in kinds):
            raise ScriptError(
                "main: expected a plain function, got one with yield or async: write rows with"
                " output_writer, and call asyncio.run inside main"
            )
        return user_main
    # Imported late: a script with a `main` needs neither runner.
    if kind == KERAS:
        from akdl.keras import operator as keras_runner

        return functools.partial(keras_runner.main, module=module)
    from akdl.estimator import functions_script as estimator_runner

    return functools.partial(estimator_runner.main, module=module)


def _task_config(surroundings: Surroundings) -> TaskConfig:
    task, rows = surroundings.task, surroundings.rows
    tf_config = json.loads(surroundings.cluster.tf_config)
    cluster, role = tf_config["cluster"], tf_config["task"]
    _make_checkpoint_dir(task.checkpoint_dir)
    user_params = with_text(json.loads(task.user_params))
    extra_inputs = _extra_inputs(surroundings)
    for number in range(1, len(task.extra_inputs) + 1):
        user_params[f"ALINK:bc_{number}"] = text_path(task.work_dir, number)
    # The shapes are found in the first rows, and a parameter server receives no rows.
    if isinstance(rows, (FileRows, OnceRows)) and role["type"] != "ps":
        write_tensor_shapes(rows, task.input_columns, task.work_dir)
    is_alone = _is_alone(cluster)
    shares = (
        None
        if is_alone or not isinstance(rows, FileRows)
        else lambda: [
            Share(share.path, share.rows) for share in surroundings.channel.wait_for_shares().shares
        ]
    )
    common = {
        "extra_inputs": extra_inputs,
        "tf_context": TFContext(rows, task.input_columns, task.exact_doubles, shares, is_alone),
        "num_workers": task.num_workers,
        "cluster": cluster,
        "task_type": role["type"],
        "task_index": role["index"],
        "work_dir": task.work_dir,
        "user_params": user_params,
        "checkpoint_dir": task.checkpoint_dir or None,
        "log_dir": surroundings.log_dir,
        "attempt": surroundings.attempt,
        "reports": surroundings.reports,
    }
    if task.kind == "train":
        checkpoint = None
        # Alink passes the parameter as text, so "false" is not a true value here.
        if user_params.get("ALINK:save_latest_checkpoint", False) not in (False, None, "", "false"):
            checkpoint = os.path.join(task.work_dir, LATEST_CHECKPOINT)
            os.makedirs(checkpoint, exist_ok=True)
        return TrainTaskConfig(
            saved_model_dir=os.path.join(task.work_dir, SAVED_MODEL),
            latest_ckpt_dir=checkpoint,
            **common,
        )
    if isinstance(rows, StreamRows) and not rows.is_once:
        return StreamTaskConfig(
            output_writer=surroundings.writer, rows=rows, cuts=surroundings.cuts, **common
        )
    return BatchTaskConfig(output_writer=surroundings.writer, **common)


def _extra_inputs(surroundings: Surroundings) -> list[ExtraInput]:
    """Wait for all rows of the extra inputs: scripts find their paths in the parameters and read
    the files at once.
    """
    task, cluster, rows = surroundings.task, surroundings.cluster, surroundings.rows
    if not task.extra_inputs or not isinstance(rows, FileRows):
        return []
    files = rows.extra_files(write_text, cluster.extra_folder, cluster.waits_for_files)
    for number, file in enumerate(files, 1):
        # The text may be in a folder that all processes of the host share, so the path that the
        # script gets is a link.
        os.symlink(file.text, text_path(task.work_dir, number))
    return [
        ExtraInput(file.path, each.columns, task.exact_doubles)
        for file, each in zip(files, task.extra_inputs)
    ]


def _make_checkpoint_dir(address: str) -> None:
    """Create a local folder of checkpoints, so that a wrong path fails before hours of training."""
    if not address or is_remote(address):
        return
    try:
        os.makedirs(address, exist_ok=True)
    except OSError as error:
        raise ScriptError(
            f"checkpointDir {address}: the folder cannot be created on this host: {error.strerror}"
        ) from None
    if not os.access(address, os.W_OK | os.X_OK):
        raise ScriptError(
            f"checkpointDir {address}: the user of this process may not write to the folder"
        )


def _failure_of(surroundings: Surroundings) -> Failure | None:
    try:
        run_script(surroundings)
    # SystemExit and KeyboardInterrupt are reported too: a process that ends without an outcome
    # would look like a crash.
    except BaseException as error:
        return described(error, surroundings.task)
    return None


def described(error: BaseException, task: Task) -> Failure:
    """Return an exception of the script as data, without akdl's own frames in the traceback."""
    if isinstance(error, (ScriptError, ModelError, LostModel, StateError)):
        return Failure(type="ScriptError", message=str(error))
    if isinstance(error, SystemExit):
        code = (
            repr(error.code)
            if isinstance(error.code, (int, str))
            else f"a {type(error.code).__name__}"
        )
        return failure_of(error, f"the script called sys.exit({code})")
    failure = failure_of(error)
    columns = [column.name for column in task.input_columns]
    failure.message = (
        no_group(error) + failure.message.rstrip("\n") + missing_column(error, columns)
    )
    return failure


def _kill_group() -> None:
    # The bridge starts this process in a session of its own. Started by hand, it belongs to the
    # group of a shell, which must not be killed.
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
