"""The TensorFlow process of a member, with its work folder, bridge server, log file and end.

This module brings together what a process needs at its start: an interpreter, variables, user
files, GPUs, an address with a token. Locks that have to be held until the process ends travel as
descriptors that it inherits, so the kernel releases them however it ends.

When one process of a group ends, TensorFlow fails in all others with errors about connections. Such
an error is held back for some seconds, so that the job reports the cause.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing

from akdl.process.parent import CHANNEL_CLOSED, REFUSED_ROWS, STOPPED_S
from akdl.process.preflight import UNUSABLE
from akdl.wire import ExtraInput, Failure, Shares, Task, Wishes
from bridge.exceptions import TaskError
from bridge.group.addresses import label
from bridge.host.console import LogFile, say, warn
from bridge.host.gpus import lease_for
from bridge.host.interpreter import first_lines, open_interpreter, variables
from bridge.host.places import places
from bridge.host.process import ChildProcess, OnExit, OnLine, describe_exit, stacks_of
from bridge.host.program_folder import sweep
from bridge.host.work_folder import STACKS_FILE, WorkFolder
from bridge.member import spare
from bridge.member.bridge_server import BridgeServer
from bridge.member.session import Session
from bridge.member.status import log_folder
from bridge.schema import table_columns
from bridge.settings import UNCOMMITTED, GroupSettings
from bridge.workarounds.beam_workers import is_worker_process

logger = logging.getLogger(__name__)

# Characters of output in an error.
_PRINTED_CHARACTERS = 20_000
# Flink keeps as many of its own log files by default.
_LOG_FILES = 10


class ScriptProcess:
    """The process of member `index` of a group, from its work folder to its log file.

    The object makes the folder, or takes a spare process with one, when it is created; `start`
    runs the process, and `close` ends it and removes the folder. `changed` is the lock of the
    member's session, which is notified when the process exits.
    """

    def __init__(
        self,
        settings: GroupSettings,
        group: str,
        index: int,
        attempt: int,
        changed: threading.Condition,
    ) -> None:
        self.settings = settings
        self.group = group
        self.index = index
        self._attempt = attempt
        self.changed = changed
        self.label = label(index, settings.num_workers)
        self.name = f"{settings.operator}, {self.label}"
        log_name = f"{settings.operator}-{group}-{self.label.replace(' ', '-')}-{attempt}"
        self._log_file = open_log_file(log_name, settings.log_file_size, settings.log_file_count)
        # The rows of the members are spread over the disks that Flink has for temporary files.
        known = places(os.environ, settings.tmp_dirs)
        place = known[index % len(known)]
        # A worker and its remover may both have been killed, and left the folder of a process.
        sweep(place)
        self._spare = spare.take(settings)
        self._folder = (
            WorkFolder(settings.user_files, place=place)
            if self._spare is None
            else self._spare.folder
        )
        self.folder = self._folder.path
        self.private_folder = self._folder.private
        self._server: BridgeServer | None = None
        self._child = None if self._spare is None else self._spare.child

    def start(
        self,
        session: Session,
        shares: Callable[[], Shares | None],
        wishes: Callable[[], Wishes],
        note_line: OnLine,
    ) -> None:
        settings = self.settings
        token = secrets.token_hex(16)
        self._note_line = note_line
        task = task_of(settings, self._folder)
        self._server = BridgeServer(
            session, self.changed, shares, wishes, task, token, self._folder.private
        )
        # The process gets the address among its variables, so the server listens before it starts.
        self._server.start()
        sent = own_variables(self._folder, self._server.address, token, self._attempt)
        if self._spare is None or not self._spare.run(sent, self._on_line, self._on_exit):
            self._child = launch(
                settings, self.index, self._folder, sent, self._on_line, self._on_exit
            )

    def stop(self, grace_s: float) -> None:
        if self._child is not None:
            self._child.stop(grace_s)

    def close(self) -> None:
        """Kill the process if it still runs, and remove what belongs to it. Safe to call twice.

        The process ends first: its server and its files are not taken from under a running script.
        """
        self.stop(0.0)
        self._folder.remove()
        if self._server is not None:
            self._server.stop()
        if self._log_file is not None:
            self._log_file.close()

    @property
    def child(self) -> ChildProcess:
        assert self._child is not None, "the process has been started"
        return self._child

    @property
    def resources(self) -> tuple[float, int]:
        """Seconds of processors and bytes of memory of the process with all that it has started."""
        if self._child is None:
            return 0.0, 0
        return sum(self._child.cpu_times), self._child.memory_bytes

    def stacks(self) -> str:
        stacks = stacks_of(self.child.pid, f"{self._folder.private}/{STACKS_FILE}")
        return f"--- where {self.label} stands ---\n{stacks}"

    def lines_before(self) -> str:
        """Sentence about the `.pth` files of a Python that has not run akdl's first lines yet.

        Such a file, or a sitecustomize, runs before any code of akdl, and may block or fail.
        """
        if os.path.exists(f"{self._folder.private}/{STACKS_FILE}"):
            return ""
        return first_lines(self.child.program)

    def log(self, line: str) -> None:
        logger.info("[%s] %s", self.name, line)
        if self._log_file is not None:
            self._log_file.write(line)

    def error(self, what: str, *details: str) -> TaskError:
        """Make an error of this member: `what` has failed, `details` in paragraphs, last output."""
        printed = "\n".join(self.child.last_lines)[-_PRINTED_CHARACTERS:]
        tail = f"--- last lines of the process ---\n{printed}" if printed.strip() else ""
        return TaskError(
            paragraphs(f"{self.name} ({self.settings.main_script}): {what}", *details, tail)
        )

    def _on_exit(self) -> None:
        with self.changed:
            self.changed.notify_all()

    def _on_line(self, line: str) -> None:
        self.log(line)
        if self.settings.print_process_info:
            self._note_line(line)
            say(f"[{self.name}] {line}")


def task_of(settings: GroupSettings, folder: WorkFolder) -> Task:
    return Task(
        operator=settings.operator,
        kind=settings.kind,
        work_dir=folder.path,
        main_script=f"{folder.path}/{settings.main_script}",
        user_params=settings.user_params,
        num_workers=settings.num_workers,
        exact_doubles=settings.exact_doubles,
        input_columns=table_columns(settings.script_schema),
        output_columns=table_columns(settings.output_schema),
        # 0 would mean no limit, and the last output would never leave.
        chunk_wait_ms=max(1, int(settings.chunk_wait_s * 1000)) if settings.kind == "stream" else 0,
        commits=settings.replay == UNCOMMITTED,
        save_every_ms=int(settings.save_every_s * 1000),
        most_unsaved=settings.max_uncommitted,
        publish_dir=settings.publish_dir or "",
        publish_every_ms=int(settings.publish_every_s * 1000),
        time_column=settings.time_column,
        checkpoint_dir=settings.checkpoint_dir or "",
        log_dir=settings.log_dir or "",
        keeps_failure=settings.keep_failed_rows,
        model_dir=settings.model_dir or "",
        read_once=settings.read_once,
        extra_inputs=[
            ExtraInput(columns=table_columns(schema)) for schema in settings.extra_schemas
        ],
    )


def own_variables(folder: WorkFolder, address: str, token: str, attempt: int) -> dict[str, str]:
    return {
        "AKDL_ADDRESS": address,
        "AKDL_TOKEN": token,
        "AKDL_ATTEMPT": str(attempt),
        "AKDL_WORK_DIR": folder.path,
    }


def launch(
    settings: GroupSettings,
    index: int,
    folder: WorkFolder,
    sent: Mapping[str, str],
    on_line: OnLine,
    on_exit: OnExit,
) -> ChildProcess:
    # A parameter server computes nothing, so it leases no GPU.
    wanted = settings.gpus_per_worker if index < settings.num_workers else 0
    name = f"{settings.operator}, {label(index, settings.num_workers)}"
    # The process inherits the locks, and holds them from its start on.
    with (
        closing(open_interpreter(settings.operator, settings.python)) as python,
        # After a restart the previous process may still be ending.
        closing(lease_for(name, wanted, settings.stop_timeout_s)) as gpus,
    ):
        environment = variables(
            settings.intra_op_parallelism, os.environ, python.path, folder, settings.env_vars
        )
        environment.update(sent, **gpus.variables)
        # `akdl replay` runs a failed script again, and needs the seed of its sets and hashes.
        if settings.keep_failed_rows:
            environment.setdefault("PYTHONHASHSEED", str(secrets.randbelow(2**32)))
        # Flink would wait indefinitely for a stopped worker, so its process kills it. The driver
        # of a local job is spared, as its user may suspend it with Ctrl-Z.
        if is_worker_process():
            environment["AKDL_STOPPED_S"] = str(STOPPED_S)
        command = [python.path, "-m", "akdl.process.preflight", "akdl.entry"]
        fds = [*folder.fds, *python.fds, *gpus.fds]
        with python.starting(settings.operator):
            return ChildProcess(
                command, environment, folder.path, on_line, on_exit, settings.log_lines, fds
            )


def open_log_file(name: str, most_bytes: int, most_files: int | None) -> LogFile | None:
    folder = log_folder()
    if not os.path.isdir(folder):
        return None
    # Flink's start scripts export this number, by which Flink rolls its own logs.
    flinks = os.environ.get("MAX_LOG_FILE_NUMBER", "")
    files = most_files or (int(flinks) if flinks.isdigit() and int(flinks) else _LOG_FILES)
    return LogFile(f"{folder}/akdl-{name}.log", most_bytes, files)


def report_end(
    name: str, session: Session, settings: GroupSettings, decides: bool, sizes: Sequence[int]
) -> None:
    """Print the warnings of a script, and log how a process ended; `sizes`, the rows of each
    worker, are for member 0 alone.
    """
    for text in session.outcome.success.warnings if session.outcome is not None else ():
        warn(f"{name} ({settings.main_script}): {text}")
    if settings.trains_apart and sizes:
        warn(
            f"{settings.operator}: the chief's model was trained on {sizes[0]} of {sum(sizes)}"
            f" rows: numWorkers defaults to the parallelism, so {len(sizes)} workers share the"
            " rows, and the script trains each separately. Set numWorkers to 1, or train them"
            " together with akdl.engine.strategy"
        )
    if decides and session.rows_discarded:
        logger.info(
            "%s: the script ended before it had read all rows; %d of %d rows were dropped",
            name,
            session.rows_discarded,
            session.rows_in,
        )
    if not decides and session.outcome is not None:
        failure = session.failure
        how = (
            "the script returned" if failure is None else describe_failure(failure).splitlines()[0]
        )
        logger.warning(
            "%s: no worker used this process (%s). Set numPSs=0 to free its slot", name, how
        )
    elif not decides:
        logger.info("%s: stopped, because the workers that it served have ended", name)


# All versions of TensorFlow raise these when the process at the other end of a connection has ended
# or given up.
_TYPES = {"UnavailableError", "AbortedError", "CancelledError", "DeadlineExceededError"}
_WORDS = re.compile(
    r"connection (reset|refused)|socket closed|failed to connect|recvmsg|broken pipe|coordination"
    r" service|"
    r"peer|remote (task|worker)|worker .* (is down|may be)|collective ops? (is )?aborted",
    re.IGNORECASE,
)


def comes_from_a_peer(failure: Failure | None, last_lines: Sequence[str]) -> bool:
    """Return True when a failure, None for a death without a report, may be the consequence of
    another process's failure.
    """
    # TensorFlow may end the process itself, and then only its last lines have the reason.
    if failure is None:
        return any(_WORDS.search(line) for line in last_lines[-20:])
    return failure.type in _TYPES or (
        failure.type.endswith("Error") and bool(_WORDS.search(failure.message))
    )


def describe_failure(failure: Failure) -> str:
    """Words for an exception of a script. Messages of a ScriptError are ours, and need no type."""
    what = (
        failure.message if failure.type == "ScriptError" else f"{failure.type}: {failure.message}"
    )
    return f"the script failed: {what}"


def describe_desertion(returned: Sequence[str]) -> str:
    """Return the likely cause of a TensorFlow error when other workers had returned; "" without
    such workers.
    """
    if not returned:
        return ""
    return (
        f"Before this error, the script had returned in {', '.join(returned)}. With"
        " MultiWorkerMirroredStrategy, a training step, an evaluation and model.save need a call"
        " in each worker: make the same calls in all workers. Workers other than the chief save to"
        " a folder in task_config.work_dir"
    )


def describe_death(status: int, connected: bool, lines_before: str = "") -> str:
    """Words for a process that has ended without an outcome.

    Args:
        status: Exit status, negative for a signal. Some have a meaning of ours.
        connected: The process had reached its bridge, so its script may have begun.
        lines_before: Sentence about lines that its Python runs before all other code.
    """
    if status == UNUSABLE:
        return "its Python environment cannot be used; the last line of its output has the reason"
    if status == REFUSED_ROWS:
        return (
            "the script wrote rows after its main had returned, in a thread or an exit handler."
            " Wait in main until all rows are written, for example with thread.join()"
        )
    if status == CHANNEL_CLOSED:
        return (
            "the script has closed file descriptors that it did not open, and with them its"
            " connection to Flink. Close only the script's own descriptors: os.closerange(3, n)"
            " closes all of them"
        )
    if connected:
        return f"the process {describe_exit(status)} before the script had ended"
    lines_before = lines_before or ". Is its Python environment complete?"
    return f"the process {describe_exit(status)} before it could start the script{lines_before}"


def paragraphs(*parts: str) -> str:
    """Join the parts of an error that are not blank, a line of its own for each."""
    return "\n".join(part.strip("\n") for part in parts if part.strip())
