"""The TensorFlow process of a member, with all that comes and goes with it: work folder, bridge server and log file."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable

from akdl.wire import Shares, Wishes
from bridge.errors.process_failures import paragraphs
from bridge.exceptions import TaskError
from bridge.folders.sweep import sweep
from bridge.folders.temporary_places import places
from bridge.folders.work_folder import STACKS_FILE, WorkFolder
from bridge.group.roles import label
from bridge.host.console import say
from bridge.host.process import ChildProcess
from bridge.member.bridge_server import BridgeServer
from bridge.member.launch import launch, open_log_file, task_of
from bridge.member.session import Session
from bridge.settings import GroupSettings

logger = logging.getLogger(__name__)

_PRINTED_CHARACTERS = 20_000  # in an error


class ScriptProcess:
    """The process, which `start` starts and `close` ends.

    Attributes:
        label: "worker 0", as messages call it.
    """

    def __init__(self, settings: GroupSettings, group: str, index: int, attempt: int, changed: threading.Condition) -> None:
        self._settings = settings
        self._index = index
        self._attempt = attempt
        self._changed = changed
        self.label = label(index, settings.num_workers)
        name = f"{settings.operator}-{group}-{self.label.replace(' ', '-')}-{attempt}"
        self._log_file = open_log_file(name, settings.log_file_bytes, settings.log_files)
        known = places(os.environ, settings.tmp_dirs)
        place = known[index % len(known)]
        sweep(place)
        self._folder = WorkFolder(settings.user_files, place=place)
        self._server: BridgeServer | None = None
        self._child: ChildProcess | None = None

    def start(
        self,
        session: Session,
        shares: Callable[[], Shares | None],
        wishes: Callable[[], Wishes],
        note_line: Callable[[str], None],
    ) -> None:
        """Start the server, then the process that connects to it.

        Args:
            note_line: Takes what the process prints, where the driver shows it.
        """
        settings, token = self._settings, secrets.token_hex(16)
        self._note_line = note_line
        task = task_of(settings, self._folder)
        self._server = BridgeServer(session, self._changed, shares, wishes, task, token, self._folder.private)
        self._server.start()
        self._child = launch(
            settings, self._index, self._attempt, self._folder, self._server.address, token, self._on_line, self._on_exit
        )

    def stop(self, grace_s: float) -> None:
        """End the process, and let it end by itself for so long. Safe to call twice."""
        if self._child is not None:
            self._child.stop(grace_s)

    def close(self) -> None:
        """End the process at once and remove its folder. Safe to call twice."""
        self.stop(0.0)
        self._folder.remove()
        if self._server is not None:
            self._server.stop()
        if self._log_file is not None:
            self._log_file.close()

    @property
    def name(self) -> str:
        """Operator and label."""
        return f"{self._settings.operator}, {self.label}"

    @property
    def folder(self) -> str:
        """Path of the work folder."""
        return self._folder.path

    @property
    def private_folder(self) -> str:
        """Path of the folder in it that belongs to us."""
        return self._folder.private

    @property
    def exit_status(self) -> int | None:
        """See `ChildProcess`."""
        return self._started.exit_status

    @property
    def cpu_s(self) -> float:
        """Processor time that it has used so far."""
        return self._started.cpu_s

    @property
    def resources(self) -> tuple[float, int]:
        """Processor seconds that it has used so far, and bytes of memory that it holds; zeros before its start."""
        return (0.0, 0) if self._child is None else (self._child.cpu_s, self._child.memory_bytes)

    @property
    def last_lines(self) -> list[str]:
        """What it printed last."""
        return self._started.last_lines

    def wait(self, seconds: float) -> None:
        """Wait until it has exited and all that it printed is here, but no longer than this."""
        self._started.wait(seconds)

    def stacks(self) -> str:
        """Describe where its threads stand."""
        stacks = self._started.stacks(os.path.join(self._folder.private, STACKS_FILE))
        return f"--- where {self.label} stands ---\n{stacks}"

    def log(self, line: str) -> None:
        """Write a line of our own to the log, and to the log file of the process."""
        logger.info("[%s] %s", self.name, line)
        if self._log_file is not None:
            self._log_file.write(line)

    def error(self, what: str, *details: str) -> TaskError:
        """Return an error of this process, with the last lines it printed."""
        printed = "\n".join(self.last_lines)[-_PRINTED_CHARACTERS:]
        tail = f"--- last lines of the process ---\n{printed}" if printed.strip() else ""
        return TaskError(paragraphs(f"{self.name} ({self._settings.main_script}): {what}", *details, tail))

    @property
    def _started(self) -> ChildProcess:
        assert self._child is not None, "the process has been started"
        return self._child

    def _on_exit(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _on_line(self, line: str) -> None:
        self.log(line)
        if self._settings.print_process_info:
            self._note_line(line)
            say(f"[{self.name}] {line}")
