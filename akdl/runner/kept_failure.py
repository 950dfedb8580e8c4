"""File that a failed script leaves for `akdl replay`: its work folder with the rows that it read last, and its surroundings.

Nothing in this tar file is pickled: the rows are as received, the rest is JSON and the user's files.
"""

import json
import os
import random
import shlex
import struct
import sys
import tarfile
from io import BytesIO
from typing import TYPE_CHECKING, Dict, Iterator, List, Mapping, Optional, Union

import numpy as np
from google.protobuf.json_format import MessageToDict

from akdl.folders.private_file import private
from akdl.masking import masked, masked_value, shown
from akdl.storage.whole_file import WholeFile
from akdl.wire import Chunk, Cluster, Failure, Task
from akdl.wire.serialized import Tally

if TYPE_CHECKING:
    from akdl.rows.file_rows import FileRows
    from akdl.rows.stream_rows import StreamRows

PRIVATE_FOLDER = ".akdl"  # inside the work folder; the rest of it belongs to the script
SAVED_MODEL, LATEST_CHECKPOINT = "savedmodel", "latest_ckpt"  # in the work folder
DESCRIPTION, ROWS = f"{PRIVATE_FOLDER}/failure.json", f"{PRIVATE_FOLDER}/rows"
FILES_BYTES = 64 << 20  # of the script's files and of extra inputs

_CHUNK = struct.Struct("<IQ")  # in front of each chunk: its number of rows, and of bytes
_SEED = "PYTHONHASHSEED"
_UNSEEDED = 87654321  # TensorFlow's number for "no seed"
_OF_THE_PLACE = {"PYTHONPATH", "TF_CONFIG", "TMPDIR"}


def seed_python(environment: Mapping[str, str]) -> None:
    """Seed Python's and numpy's random numbers, so that a replay gets the same; before the script is imported."""
    random.seed(environment.get(_SEED))
    np.random.seed(int(environment[_SEED]) if environment.get(_SEED, "").isdigit() else None)


def seed_tensorflow(environment: Mapping[str, str]) -> None:
    """Seed TensorFlow where the script has imported it and not seeded it."""
    tensorflow = sys.modules.get("tensorflow")
    seed = environment.get(_SEED, "")
    if tensorflow is not None and seed.isdigit() and tensorflow.compat.v1.get_seed(1)[0] == _UNSEEDED:
        tensorflow.compat.v1.set_random_seed(int(seed))


def keep_failure(
    folder: str,
    task: Task,
    cluster: Cluster,
    attempt: int,
    rows: "Union[FileRows, StreamRows]",
    environment: Mapping[str, str],
    failure: Failure,
) -> str:
    """Write the file to a folder, and return a line for the error; a failure to write is such a line too."""
    role = json.loads(cluster.tf_config)["task"]
    name = f"failure-{role['type']}-{role['index']}-{attempt}.tar"
    try:
        os.makedirs(folder, exist_ok=True)
        with WholeFile(os.path.join(folder, name), private) as file, tarfile.open(None, "w", file) as archive:
            left_out = _add_files(archive, task, cluster.extra_folder)
            chunks = rows.last()
            description = {
                "task": MessageToDict(_portable(task), preserving_proto_field_name=True),
                "role": f"{role['type']} {role['index']}",
                "attempt": attempt,
                "python": sys.executable,
                "environment": _without_secrets(environment),
                "first_row": (rows.taken or rows.count) - sum(count for count, _ in chunks),
                "left_out": left_out,
                "failure": comparable(failure, task.work_dir),
            }
            _add(archive, DESCRIPTION, json.dumps(description).encode())
            _add(archive, ROWS, b"".join(_CHUNK.pack(count, len(columns)) + columns for count, columns in chunks))
    except Exception as error:  # the script's own error matters more
        return f"Its rows could not be kept in logDir: {masked(f'{type(error).__name__}: {error}', task.log_dir)}"
    return f"Replay it with: akdl replay --pdb {shlex.quote(shown(task.log_dir).rstrip('/') + '/' + name)}"


def comparable(failure: Failure, work_dir: str) -> List[str]:
    """Type and message of a failure without secrets, and without the place of its work folder."""
    return [failure.type, masked(failure.message.replace(work_dir, "")).rstrip()]


def chunks_in(path: str) -> Iterator[Chunk]:
    """Yield the kept chunks in the form of the channel, and the end of the input."""
    tally = Tally()
    with open(path, "rb") as file:
        for head in iter(lambda: file.read(_CHUNK.size), b""):
            rows, size = _CHUNK.unpack(head)
            columns = file.read(size)
            tally.add(rows, columns)
            yield Chunk(rows=rows, columns=columns)
    yield tally.end()


def _portable(task: Task) -> Task:
    result = Task()
    result.CopyFrom(task)
    result.main_script = os.path.relpath(task.main_script, task.work_dir)
    result.user_params = json.dumps(masked_value("", json.loads(task.user_params)))
    result.checkpoint_dir = "checkpoints" if task.checkpoint_dir else ""  # a replay leaves the checkpoints of the job alone
    result.work_dir = result.log_dir = result.model_dir = ""
    return result


def _without_secrets(environment: Mapping[str, str]) -> Dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name not in _OF_THE_PLACE and not name.startswith("_AKDL") and masked_value(name, value) == value
    }


def _add_files(archive: tarfile.TarFile, task: Task, extra_folder: str) -> List[str]:
    """Add the files of the work folder and of the extra inputs, and return the names of files for which there is no room."""
    left, left_out = FILES_BYTES, []

    def fitting(entry: tarfile.TarInfo) -> Optional[tarfile.TarInfo]:
        nonlocal left
        if entry.isfile() and entry.size > left:
            left_out.append(entry.name)
        elif entry.isdir() or entry.isfile():  # no links and sockets
            left -= entry.size
            return entry if os.path.basename(entry.name) != "__pycache__" else None
        return None

    for name in sorted(os.listdir(task.work_dir)):
        if not name.startswith(PRIVATE_FOLDER) and name not in (SAVED_MODEL, LATEST_CHECKPOINT):
            archive.add(os.path.join(task.work_dir, name), name, filter=fitting)
    folder = extra_folder or os.path.join(task.work_dir, PRIVATE_FOLDER)
    numbers = range(1, len(task.extra_inputs) + 1)
    for name in [pattern.format(number) for number in numbers for pattern in ("extra-{}.tfrecords", "text-{}")]:
        if os.path.exists(os.path.join(folder, name)):
            archive.add(os.path.join(folder, name), f"{PRIVATE_FOLDER}/{name}", filter=fitting)
    return left_out


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, BytesIO(content))
