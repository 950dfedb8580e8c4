"""The spare process of a local program: it imports TensorFlow before the next script needs it.

Of the 3.8 s of a further job in a program, 1.6 s were the import of TensorFlow, and 0.6 s the end
of a Python that has imported it. A spare process has imported it already, and has frozen its
objects, so that its end does not look at each of them.

At most one process waits, from the first link of a script operator on. It has a work folder of its
own, which becomes the script's, so a script that takes it finds what it would find in a new
process. It is started with the variables of the last script, and a script with others gets a new
process. It ends after `IDLE_S`, with the program, or when memory is short.

Only groups of one process on hosts without GPUs take it: a lease of a GPU is inherited at the start
of a process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import threading
import time
from collections.abc import Mapping

import psutil

from akdl.process.preflight import SPARE_FD
from bridge.exceptions import ConfigurationError
from bridge.host.gpus import inventory
from bridge.host.interpreter import open_interpreter, variables
from bridge.host.places import shared_place
from bridge.host.process import ChildProcess, OnExit, OnLine
from bridge.host.work_folder import WorkFolder
from bridge.settings import GroupSettings, PythonArchive
from bridge.workarounds.beam_workers import is_worker_process

logger = logging.getLogger(__name__)

IDLE_S = 60.0
_LOOK_S = 5.0
# With fewer bytes available, no process waits, because a waiting one has about 300 MB.
_LEAST_MEMORY = 2 << 30


class SpareProcess:
    """A process that waits for its script, with a work folder and variables from its start.

    It has the reading end of a pipe from its start. The variables of a script, sent through the
    pipe, make it run this script; the end of the pipe without them makes it exit.
    """

    def __init__(self, settings: GroupSettings) -> None:
        python = open_interpreter(settings.operator, settings.python).path
        self._place = shared_place(settings.tmp_dirs)
        self.folder = WorkFolder((), place=self._place)
        self._environment = self._environment_of(settings, python)
        self.taken = threading.Event()
        reading, self._pipe = os.pipe()
        try:
            self.child = ChildProcess(
                [python, "-m", "akdl.process.preflight", "akdl.entry"],
                # `akdl top` finds the folder among the variables that a process was started with.
                {**self._environment, SPARE_FD: str(reading), "AKDL_WORK_DIR": self.folder.path},
                self.folder.path,
                lambda line: None,
                lambda: None,
                settings.log_lines,
                [*self.folder.fds, reading],
            )
        except BaseException:
            os.close(self._pipe)
            self.folder.remove()
            raise
        finally:
            os.close(reading)

    def suits(self, settings: GroupSettings) -> bool:
        """Return True if a new process for this script would have the same Python and variables.

        Variables of this program may have changed since the process was started.
        """
        python = open_interpreter(settings.operator, settings.python).path
        return (
            self.child.exit_status is None
            and self.child.program == python
            and self._place == shared_place(settings.tmp_dirs)
            and self._environment == self._environment_of(settings, python)
        )

    def run(self, sent: Mapping[str, str], on_line: OnLine, on_exit: OnExit) -> bool:
        """Let it run the script in its work folder; `sent` are the script's own variables.

        Returns False where the process has ended since it was taken, for example because the host
        had too little memory. The work folder stays, for a new process.
        """
        # The script starts with the message below, so its first line reaches `on_line` already.
        self.child.pass_on(on_line, on_exit)
        # The bytes leave the buffer at the end of the block. An error there replaces the return.
        with contextlib.suppress(BrokenPipeError), os.fdopen(self._pipe, "wb") as pipe:
            pipe.write(json.dumps(dict(sent)).encode() + b"\n")
            return True
        self.child.stop(0.0)
        return False

    def end(self) -> None:
        os.close(self._pipe)
        self.child.stop(0.0)
        self.folder.remove()

    def _environment_of(self, settings: GroupSettings, python: str) -> dict[str, str]:
        return variables(
            settings.intra_op_parallelism, os.environ, python, self.folder, settings.env_vars
        )


def prepare(settings: GroupSettings) -> None:
    """Start the process for the next script like this one, in a thread, unless one waits
    already.
    """
    if _may_take(settings) and _spare is None:
        threading.Thread(target=_keep, args=(settings,), name="akdl-spare", daemon=True).start()


def take(settings: GroupSettings) -> SpareProcess | None:
    """Take the process that waits, with the user's files in its work folder; None where the script
    needs a new one.
    """
    # The process is taken before it is examined, so that `_keep` cannot end it meanwhile.
    spare = _released() if _may_take(settings) else None
    if spare is None:
        return None
    try:
        if spare.suits(settings):
            spare.folder.add(settings.user_files)
            return spare
    # A new process fails with the same error if the script's settings have it.
    except (OSError, ConfigurationError) as error:
        logger.info("no spare process: %s", error)
    spare.end()
    return None


def _may_take(settings: GroupSettings) -> bool:
    """Return False for scripts that need a process of their own from its start."""
    return not (
        os.environ.get("AKDL_SPARE") == "0"
        or settings.size > 1
        or settings.gpus_per_worker
        # A script whose rows may be replayed has a hash seed of its own from its start.
        or settings.keep_failed_rows
        or isinstance(settings.python, PythonArchive)
        or is_worker_process()
    )


def _keep(settings: GroupSettings) -> None:
    """Start a process, and end it when it has waited for too long or memory is short."""
    global _spare
    try:
        # A process inherits its lease of a GPU at its start, when no script has asked for it.
        if inventory(os.environ) is not None or _is_memory_short():
            return
        with _lock:
            # The program may have begun to end, and `_end_with_program` does not run again.
            if _spare is not None or _is_over:
                return
            _spare = spare = SpareProcess(settings)
    except (OSError, ConfigurationError) as error:
        logger.info("no spare process: %s", error)
        return
    end = time.monotonic() + IDLE_S
    while not spare.taken.wait(_LOOK_S):
        if time.monotonic() >= end or _is_memory_short():
            _end()


def _is_memory_short() -> bool:
    return psutil.virtual_memory().available < _LEAST_MEMORY


def _released() -> SpareProcess | None:
    """Take the process away from all other threads; the caller has to run or to end it."""
    global _spare
    with _lock:
        spare = _spare
        _spare = None
    if spare is not None:
        spare.taken.set()
    return spare


def _end() -> None:
    spare = _released()
    if spare is not None:
        spare.end()


@atexit.register
def _end_with_program() -> None:
    global _is_over
    # A fork of the program ends without its spare process.
    if os.getpid() != _pid:
        return
    with _lock:
        _is_over = True
    _end()


_lock = threading.Lock()
_spare: SpareProcess | None = None
_is_over = False
_pid = os.getpid()
