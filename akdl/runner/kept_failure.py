"""File that a failed script leaves for `akdl replay`: its last rows and its surroundings.

A traceback names the line of a script but not the row. With `logDir` and `keepFailedRows`, the
process that fails writes the chunks that its script took last, its files, parameters, environment
and seed. Nothing in this tar file is pickled: the rows are as received, the rest is JSON and the
user's files.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import struct
import sys
import tarfile
from io import BytesIO
from typing import TYPE_CHECKING, Iterator, Mapping

import numpy as np
from google.protobuf.json_format import MessageToDict

from akdl.masking import masked, masked_value, shown
from akdl.storage.local_files import WholeFile, private
from akdl.wire import Chunk, Cluster, Failure, Task
from akdl.wire.serialized import Tally

if TYPE_CHECKING:
    from akdl.rows.file_rows import FileRows
    from akdl.rows.stream_rows import StreamRows

# This folder is inside the work folder, whose other content belongs to the script.
PRIVATE_FOLDER = ".akdl"
# Folders in the work folder for the results of a training. A replay makes them again, so the file
# leaves them out.
SAVED_MODEL, LATEST_CHECKPOINT = "savedmodel", "latest_ckpt"
DESCRIPTION, ROWS = f"{PRIVATE_FOLDER}/failure.json", f"{PRIVATE_FOLDER}/rows"
# Limit for the script's files and the extra inputs together: the tar is written while a job is
# failing.
FILES_BYTES = 64 << 20

# This header is in front of each chunk: its number of rows, and of bytes.
_CHUNK = struct.Struct("<IQ")
_SEED = "PYTHONHASHSEED"
# TensorFlow returns this number for "no seed".
_UNSEEDED = 87654321
# Variables that only have a meaning on the host of the failure; a replay sets its own.
_OF_THE_PLACE = {"PYTHONPATH", "TF_CONFIG", "TMPDIR"}


def seed_python(environment: Mapping[str, str]) -> None:
    """Seed Python's and numpy's random numbers, so that a replay gets the same ones.

    Call it before the script is imported, because modules may draw numbers on import.
    """
    # The seed is the one that the bridge sets for Python's hashes, so a replay needs one variable
    # alone.
    random.seed(environment.get(_SEED))
    np.random.seed(int(environment[_SEED]) if environment.get(_SEED, "").isdigit() else None)


def seed_tensorflow(environment: Mapping[str, str]) -> None:
    """Seed TensorFlow if the script has imported it and has not seeded it.

    TensorFlow is not imported for this: that takes seconds, and some scripts never use it.
    """
    tensorflow = sys.modules.get("tensorflow")
    seed = environment.get(_SEED, "")
    if (
        tensorflow is not None
        and seed.isdigit()
        and tensorflow.compat.v1.get_seed(1)[0] == _UNSEEDED
    ):
        tensorflow.compat.v1.set_random_seed(int(seed))


def keep_failure(
    folder: str,
    task: Task,
    cluster: Cluster,
    attempt: int,
    rows: FileRows | StreamRows,
    environment: Mapping[str, str],
    failure: Failure,
) -> str:
    """Write the file to a folder, and return a line for the error.

    A failure to write is such a line too.
    """
    role = json.loads(cluster.tf_config)["task"]
    name = f"failure-{role['type']}-{role['index']}-{attempt}.tar"
    try:
        os.makedirs(folder, exist_ok=True)
        # Only the user may read the file, because it has rows of the table.
        with WholeFile(os.path.join(folder, name), private) as file, tarfile.open(
            None, "w", file
        ) as archive:
            left_out = _add_files(archive, task, cluster.extra_folder)
            chunks = rows.last()
            description = {
                "task": MessageToDict(_portable(task), preserving_proto_field_name=True),
                "role": f"{role['type']} {role['index']}",
                "attempt": attempt,
                "python": sys.executable,
                # A value that would be masked holds a secret. It is left out, because people pass
                # such files on, and a masked one would be wrong and not missing.
                "environment": {
                    key: value
                    for key, value in environment.items()
                    if key not in _OF_THE_PLACE
                    and not key.startswith("_AKDL")
                    and masked_value(key, value) == value
                },
                # A script that reads the file by its path takes no rows from here, so the rows that
                # have arrived count.
                "first_row": (rows.taken or rows.count) - sum(count for count, _ in chunks),
                "left_out": left_out,
                "failure": comparable(failure, task.work_dir),
            }
            _add(archive, DESCRIPTION, json.dumps(description).encode())
            _add(
                archive,
                ROWS,
                b"".join(_CHUNK.pack(count, len(columns)) + columns for count, columns in chunks),
            )
    # The script's own error matters more than a full disk, so no error may leave this function.
    except Exception as error:
        return (
            "Its rows could not be kept in logDir:"
            f" {masked(f'{type(error).__name__}: {error}', task.log_dir)}"
        )
    return (
        "Replay it with: akdl replay --pdb"
        f" {shlex.quote(shown(task.log_dir).rstrip('/') + '/' + name)}"
    )


def comparable(failure: Failure, work_dir: str) -> list[str]:
    """Return type and message of a failure, so that a replay can say whether it fails alike.

    Secrets are masked, and the place of the work folder is removed because a replay has another
    one.
    """
    return [failure.type, masked(failure.message.replace(work_dir, "")).rstrip()]


def chunks_in(path: str) -> Iterator[Chunk]:
    """Yield the kept chunks in the form of the channel, and the end of the input."""
    tally = Tally()
    with open(path, "rb") as file:
        # The end mark is computed from the chunks, because the one of the channel also covers the
        # rows that were not kept.
        for head in iter(lambda: file.read(_CHUNK.size), b""):
            rows, size = _CHUNK.unpack(head)
            columns = file.read(size)
            tally.add(rows, columns)
            yield Chunk(rows=rows, columns=columns)
    yield tally.end()


def _portable(task: Task) -> Task:
    """Return the task without what belongs to the host or the job of the failure."""
    # The task itself is still in use, so a copy is changed.
    result = Task()
    result.CopyFrom(task)
    result.main_script = os.path.relpath(task.main_script, task.work_dir)
    result.user_params = json.dumps(masked_value("", json.loads(task.user_params)))
    # A replay must leave the checkpoints of the job alone, so it gets a folder of its own.
    result.checkpoint_dir = "checkpoints" if task.checkpoint_dir else ""
    result.work_dir = result.log_dir = result.model_dir = ""
    return result


def _add_files(archive: tarfile.TarFile, task: Task, extra_folder: str) -> list[str]:
    """Add the files of the work folder and of the extra inputs.

    The result has the names of files for which there is no room.
    """
    left, left_out = FILES_BYTES, []

    def fitting(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        """Filter of `tarfile`: drop a file for which there is no room, and note its name."""
        nonlocal left
        # A smaller file that follows may still fit, so the archive goes on.
        if entry.isfile() and entry.size > left:
            left_out.append(entry.name)
        # Links and sockets are left out: they have no meaning on another host.
        elif entry.isdir() or entry.isfile():
            left -= entry.size
            # Compiled modules belong to one version of Python, and the replay may run in another.
            return entry if os.path.basename(entry.name) != "__pycache__" else None
        return None

    for name in sorted(os.listdir(task.work_dir)):
        if not name.startswith(PRIVATE_FOLDER) and name not in (SAVED_MODEL, LATEST_CHECKPOINT):
            archive.add(os.path.join(task.work_dir, name), name, filter=fitting)
    # The files of extra inputs are in the folder that the processes of a host share, if there is
    # one.
    folder = extra_folder or os.path.join(task.work_dir, PRIVATE_FOLDER)
    for number in range(1, len(task.extra_inputs) + 1):
        for name in (f"extra-{number}.tfrecords", f"text-{number}"):
            path = os.path.join(folder, name)
            if os.path.exists(path):
                archive.add(path, f"{PRIVATE_FOLDER}/{name}", filter=fitting)
    return left_out


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, BytesIO(content))
