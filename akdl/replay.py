"""`akdl replay FILE`: run a failed script again, on the rows that it read last, without Flink.

A traceback names the line of a script, but not the row. With `keepFailedRows` the process that
fails writes the chunks that its script took last, its files, parameters, environment and seed into
a file, which this module unpacks into a new work folder. The script runs in the Python of the job
where this host has it. The rows that it writes are checked and dropped.

The file holds code, so it has to come from somebody whom the user trusts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pdb
import re
import signal
import socket
import subprocess
import sys
import tempfile
from typing import Iterable, Iterator, NamedTuple, Sequence

from google.protobuf.json_format import ParseDict, ParseError

from akdl import entry
from akdl.masking import shown
from akdl.process.channel import Channel
from akdl.runner.kept_failure import DESCRIPTION, PRIVATE_FOLDER, ROWS, chunks_in, comparable
from akdl.storage.archive import ArchiveError, unpack_archive
from akdl.storage.files import FileError, fetch
from akdl.storage.local_files import private
from akdl.wire import Chunk, Cluster, Output, Task


class _Failure(NamedTuple):
    """Description of a failed process, as `akdl.runner.kept_failure` writes it."""

    task: Task
    role: str
    attempt: int
    python: str
    environment: dict[str, str]
    first_row: int
    left_out: list[str]
    failure: list[str]  # type and message


class _KeptChannel(Channel):
    """The channel of a process whose rows are in a file, and which is a group of its own.

    It replaces the calls that `entry.surround` and `entry.run_script` make, so that the script runs
    in the same code as in a job. There is no bridge, so the other calls must not be used.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def wait_for_cluster(self) -> Cluster:
        with contextlib.closing(socket.socket()) as free:
            free.bind(("localhost", 0))
            address = f"localhost:{free.getsockname()[1]}"
        config = {"cluster": {"chief": [address]}, "task": {"type": "chief", "index": 0}}
        # With `waits_for_files` the process looks for the files of extra inputs instead of
        # receiving them. They are among the kept files, and `_replay` marks them as complete.
        return Cluster(tf_config=json.dumps(config), waits_for_files=True)

    def read(self) -> Iterator[Chunk]:
        return chunks_in(self._path)

    def write(self, messages: Iterable[Output]) -> None:
        """Take the messages, because the writer waits for room until they are read."""
        for _ in messages:
            pass


def main(args: Sequence[str] | None = None) -> int:
    """Return the exit status: that of the script's process, 1 where the script fails, and 2 without
    a readable file.
    """
    parser = argparse.ArgumentParser(
        prog="akdl replay",
        description="Run a failed script again, on the rows that it read last, without Flink.",
    )
    parser.add_argument("file", help="path or address that the error of the job names")
    parser.add_argument(
        "--pdb", action="store_true", help="open Python's debugger where the script fails"
    )
    given = parser.parse_args(args)
    # A folder is given by this command itself, in the process that it starts below.
    if os.path.isdir(given.file):
        try:
            kept = _failure_in(given.file)
        except FileError as error:
            return _refuse(given.file, error)
        return _replay(given.file, kept, given.pdb)
    with tempfile.TemporaryDirectory(prefix="akdl_replay_") as place:
        folder = os.path.join(place, "work")
        os.mkdir(folder)
        try:
            with open(fetch(given.file, place), "rb") as file:
                unpack_archive(file, folder)
            kept = _failure_in(folder)
            library = os.path.join(folder, PRIVATE_FOLDER, "lib")  # as in the job: akdl alone
            os.mkdir(library)
            os.symlink(os.path.dirname(os.path.abspath(__file__)), os.path.join(library, "akdl"))
        except (OSError, FileError, ArchiveError) as error:
            return _refuse(given.file, error)
        # A process of its own, because the script needs the variables of the job from its start,
        # and often another Python than the one of this command.
        python = kept.python if os.access(kept.python, os.X_OK) else sys.executable
        command = [python, "-m", "akdl", "replay", folder, *(["--pdb"] if given.pdb else [])]
        # Ctrl-C is meant for the script or its debugger. A process that is started would inherit an
        # ignored signal, but a handler of Python does not survive the start.
        signal.signal(signal.SIGINT, lambda *_: None)
        # The script must not use the packages of this command, only akdl. faulthandler shows where
        # a crash in native code happened.
        environment = {**kept.environment, "PYTHONPATH": library, "PYTHONFAULTHANDLER": "1"}
        return subprocess.call(command, cwd=folder, env={**os.environ, **environment})


def _refuse(file: str, error: Exception) -> int:
    _say(f"{shown(file)}: {error}")
    return 2


def _replay(folder: str, kept: _Failure, debugs: bool) -> int:
    """Run the script in this process, and compare its error with that of the job."""
    task, logs = kept.task, os.path.join(folder, PRIVATE_FOLDER, "logs")
    # The file has paths relative to the work folder, because this host need not have the job's one.
    task.work_dir, task.num_workers = folder, 1
    task.main_script = os.path.join(folder, task.main_script)
    task.checkpoint_dir = task.checkpoint_dir and os.path.join(folder, task.checkpoint_dir)
    _say(f"{task.operator}, {kept.role}, from row {kept.first_row} of its rows")
    for name in kept.left_out:
        _say(f"{name} is not there: it was too large to keep")
    open(os.path.join(folder, PRIVATE_FOLDER, "complete"), "wb", opener=private).close()
    surroundings = entry.surround(
        _KeptChannel(os.path.join(folder, ROWS)), task, kept.attempt, logs
    )
    try:
        entry.run_script(surroundings)
    except BaseException as error:
        failure = entry.described(error, task)
        print(failure.traceback or failure.message, file=sys.stderr)
        found = comparable(failure, folder)
        # Numbers are ignored in the comparison, because rows and lines of code may have other
        # numbers here.
        plain, of_job = (re.sub(r"\d+", "0", "\n".join(each)) for each in (found, kept.failure))
        _say(
            "the error of the job"
            if plain == of_job
            else "another error; the job had {}: {}".format(*kept.failure)
        )
        if debugs:
            pdb.post_mortem(error.__traceback__)
        return 1
    _say("no error; the job had {}: {}".format(*kept.failure))
    return 0


def _failure_in(folder: str) -> _Failure:
    try:
        with open(os.path.join(folder, DESCRIPTION), encoding="utf-8") as file:
            found = json.load(file)
        return _Failure(ParseDict(found.pop("task"), Task(), ignore_unknown_fields=True), **found)
    except (
        OSError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        ParseError,
    ) as error:
        raise FileError(
            f"expected a file that a failed script left with keepFailedRows ({error})"
        ) from None


def _say(text: str) -> None:
    print(f"akdl replay: {text}", file=sys.stderr, flush=True)
