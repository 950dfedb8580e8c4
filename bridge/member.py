"""One member of a group: a TensorFlow process with its work folder, session and server, from start to removal.

The Flink function feeds it and takes rows from it; both may wait, and while they wait they look once a second whether
the Flink task is still wanted (`alive`) and whether the process still runs.
"""

from __future__ import annotations

import logging
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

from akdl.wire import Rows, TableColumn, Task
from bridge import registry
from bridge.environment import WorkFolder, interpreter, variables
from bridge.exceptions import TaskError
from bridge.process import ChildProcess, describe_exit
from bridge.schema import Schema
from bridge.server import BridgeServer
from bridge.session import Session
from bridge.settings import GroupSettings
from bridge.tf_config import role

logger = logging.getLogger(__name__)

HEARTBEAT_S = 1.0
LAST_WORDS_S = 2.0


class Member:
    """Process `index` of a group, started at once.

    Args:
        settings: The group's settings.
        group: Unique name of the group, the same in all its members.
        index: Number of this process: workers first, then parameter servers.
        attempt: Number of the Flink attempt, from 0.
        alive: Asks Flink for a sign of life; raises, or does not return, when the task has ended.
    """

    def __init__(self, settings: GroupSettings, group: str, index: int, attempt: int, alive: Callable[[], None]) -> None:
        self._settings = settings
        self._group = group
        kind, number = role(index, settings.num_workers)
        self.label = f"{kind} {number}"
        self._alive = alive
        self._changed = threading.Condition()
        self._session = Session(attempt, settings.queue_bytes)
        self._stop_lock = threading.Lock()
        self._stopped = False
        self._heartbeat_due = time.monotonic() + HEARTBEAT_S
        self._heartbeat_sent: float | None = None
        self._started = time.monotonic()
        self._log_file = _open_log_file(f"{settings.operator}-{group}-{kind}-{number}-{attempt}")
        self._folder = WorkFolder(settings)
        self._server: BridgeServer | None = None
        self._process: ChildProcess | None = None
        registry.add(self)
        try:
            self._start(attempt)
        except BaseException:
            self.stop()
            raise

    def set_cluster(self, tf_config: str) -> None:
        """Tell the process its TF_CONFIG; `main` starts then."""
        with self._changed:
            self._session.cluster = tf_config
            self._changed.notify_all()

    def feed(self, rows: int, records: bytes) -> Iterator[Rows]:
        """Hand rows to the script, waiting while it is too slow, and yield what it wrote meanwhile.

        Raises:
            TaskError: The script failed.
        """
        accepted = False
        while not accepted:
            with self._changed:
                accepted = self._session.offer(rows, records)
                taken = self._take_rows(wait=not accepted)
            self._check()
            yield from taken

    def finish(self) -> Iterator[Rows]:
        """End the script's input, yield what it still writes, and return when it has ended and is gone.

        Raises:
            TaskError: The script failed.
        """
        ended = False
        while not ended:
            with self._changed:
                self._session.end_input()
                ended = self._session.outcome is not None  # asked before the rows are taken: none can come after it
                taken = self._take_rows(wait=not ended)
            self._check()
            yield from taken
        if self._session.rows_discarded:
            logger.info(
                "%s: the script ended before it had read all; %d of %d rows were dropped",
                self._name, self._session.rows_discarded, self._session.rows_in,
            )  # fmt: skip
        self.stop(self._settings.stop_timeout_s)

    def stop(self, patience_s: float = 0.0) -> None:
        """End the process and remove its folder. Safe to call twice and from any thread."""
        with self._stop_lock:
            if self._stopped:
                return
            if self._process is not None:
                self._process.stop(patience_s)
            if self._server is not None:
                self._server.stop()
            self._folder.remove()
            if self._log_file is not None:
                self._log_file.close()
            registry.discard(self)
            self._stopped = True
        with self._changed:
            self._changed.notify_all()

    @property
    def group(self) -> str:
        """The group this process belongs to."""
        return self._group

    @property
    def unanswered_s(self) -> float:
        """For how many seconds Flink has owed an answer to a heartbeat."""
        sent = self._heartbeat_sent
        return 0.0 if sent is None else time.monotonic() - sent

    @property
    def _name(self) -> str:
        return f"{self._settings.operator}, {self.label}"

    def _start(self, attempt: int) -> None:
        settings = self._settings
        python = interpreter(settings)
        task = Task(
            operator=settings.operator,
            kind=settings.kind,
            work_dir=self._folder.path,
            main_script=os.path.join(self._folder.path, settings.main_script),
            user_params=settings.user_params,
            num_workers=settings.num_workers,
            exact_doubles=settings.exact_doubles,
            input_columns=_table_columns(settings.input_schema),
            output_columns=_table_columns(settings.output_schema),
        )
        token = secrets.token_hex(16)
        self._server = BridgeServer(self._session, self._changed, task, token, self._folder.private)
        self._server.start()
        environment = variables(settings, os.environ, python, self._folder)
        environment.update(AKDL_ADDRESS=self._server.address, AKDL_TOKEN=token, AKDL_ATTEMPT=str(attempt))
        environment["AKDL_WORK_DIR"] = self._folder.path
        command = [python, "-m", "akdl.entry"]
        lines = settings.log_lines
        self._process = ChildProcess(command, environment, self._folder.path, self._on_line, self._on_exit, lines)

    def _take_rows(self, wait: bool) -> list[Rows]:
        """Take what the script wrote, with the lock held; if that is nothing and `wait`, let any change happen first."""
        self._changed.notify_all()  # there may be new input, and there will be room for output
        if wait and not self._session.has_rows:
            self._changed.wait(HEARTBEAT_S)
        return self._session.take_rows()

    def _check(self) -> None:
        """Raise when the script has failed, the process has died or the Flink task is gone. Takes no lock."""
        if self._stopped:
            raise TaskError(f"{self._name}: stopped because its job has ended")
        session, process = self._session, self._process
        assert process is not None
        late = session.hello is None and time.monotonic() - self._started > self._settings.start_timeout_s
        # The exit is asked for first: a process reports its outcome before it exits, never after.
        died = process.exit_status is not None and session.outcome is None
        if died or late or session.failure is not None:
            if session.failure is not None:
                process.wait(LAST_WORDS_S)  # it is about to exit; then all that it printed is here
            error = self._error(process)
            self.stop()
            raise error
        if time.monotonic() >= self._heartbeat_due:
            self._heartbeat_sent = time.monotonic()
            self._alive()
            self._heartbeat_sent = None
            self._heartbeat_due = time.monotonic() + HEARTBEAT_S

    def _on_exit(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _on_line(self, line: str) -> None:
        prefixed = f"[{self._name}] {line}"
        logger.info("%s", prefixed)
        if self._log_file is not None:
            self._log_file.write(line + "\n")
        if self._settings.print_process_info:
            print(prefixed, file=sys.stdout, flush=True)

    def _error(self, process: ChildProcess) -> TaskError:
        """Describe why this process failed."""
        failure, status = self._session.failure, process.exit_status
        where = f"{self._name} ({self._settings.main_script})"
        printed = "\n".join(process.last_lines)
        if failure is not None:
            what = failure.message if failure.type == "ScriptError" else f"{failure.type}: {failure.message}"
            return TaskError(_paragraphs(f"{where}: the script failed: {what}", failure.traceback, _tail(printed)))
        if status is None:
            what = f"the process did not connect within {self._settings.start_timeout_s:g} s"
        elif self._session.hello is not None:
            what = f"the process {describe_exit(status)} before the script had ended"
        else:
            what = f"the process {describe_exit(status)} before it could start the script; is its environment complete?"
        return TaskError(_paragraphs(f"{where}: {what}", _tail(printed)))


def _table_columns(schema: Schema) -> list[TableColumn]:
    return [TableColumn(name=column.name, type=column.type.sql) for column in schema.columns]


def _open_log_file(name: str) -> TextIO | None:
    """Open a log file beside Flink's own where Flink says where that is, as on a TaskManager."""
    folder = os.environ.get("FLINK_LOG_DIR", "")
    if not os.path.isdir(folder):
        return None
    return open(os.path.join(folder, f"akdl-{name}.log"), "w", encoding="utf-8", buffering=1)


def _paragraphs(*parts: str) -> str:
    return "\n".join(part.strip("\n") for part in parts if part.strip())


def _tail(printed: str) -> str:
    return f"--- last lines of the process ---\n{printed}" if printed.strip() else ""
