"""The Python of TensorFlow processes: an interpreter, or an archive that each host unpacks.

An archive is unpacked once into a folder that is named by its checksum, and each process that uses
it inherits a shared lock on the folder, which is removed after the last of them has ended.

A process gets environment variables of its own: it runs a user's script, so it does not inherit the
environment of Flink's worker, which may hold secrets.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import akdl.storage.files
from akdl.process.parent import FOR_USERS
from akdl.storage.archive import ArchiveError, unpack_archive
from akdl.storage.locked_folder import hold, locked, remove, remove_unused
from bridge.exceptions import ConfigurationError, refused_at
from bridge.host.allocator import MEMORY
from bridge.host.places import environment_place
from bridge.host.process import ChildProcess
from bridge.host.shipped import path_on_host
from bridge.host.work_folder import WorkFolder, remove_when_unlocked
from bridge.settings import PythonArchive

logger = logging.getLogger(__name__)

# An interpreter gets this time to report its versions, for which it does not import TensorFlow.
_LOOK_S = 120.0
# conda-unpack gets this time, because it rewrites the paths in the files of an environment.
_UNPACK_S = 600.0
_SHOWN_LINES = 5
# So many last lines of a program's output are kept for errors.
_KEPT_LINES = 1000
# This file appears once the folder is complete, so an environment that was unpacked in part is
# never used.
_COMPLETE = ".akdl-complete"
_PACK = (
    "pack it with conda-pack, or install the packages into a relocatable Python (such as one from"
    " uv); a venv cannot be packed, since it only links to a Python elsewhere"
)


class NoAnswerError(ConfigurationError):
    """An interpreter did not end in time. The text says where it stood."""


@dataclass
class Interpreter:
    """A Python interpreter on this host, held for a process that is about to start.

    The process has to inherit `fds`, the lock of an unpacked environment. After `close` here it
    is the only one that holds the environment.
    """

    path: str
    fds: tuple[int, ...] = ()

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.fds = ()

    @contextlib.contextmanager
    def starting(self, operator: str) -> Iterator[None]:
        """Explain an interpreter that cannot be started, while a process is started."""
        try:
            yield
        except OSError as error:
            raise ConfigurationError(f"{operator}: {_cannot_run(self.path, error)}") from None


def open_interpreter(operator: str, python: str | PythonArchive | None) -> Interpreter:
    """The interpreter of TensorFlow processes on this host, unpacked if need be; None means the one
    of this program.
    """
    if isinstance(python, PythonArchive):
        with refused_at(f"{operator}: pythonEnv {python.origin}", ConfigurationError):
            return _open_archive(python)
    chosen = python or sys.executable
    # The driver did not look into this folder, because it may exist only on this host.
    if os.path.isdir(chosen):
        chosen = interpreter_in(chosen) or os.path.join(chosen, "bin", "python")
    if not os.access(chosen, os.X_OK):
        raise ConfigurationError(
            f"{operator}: pythonEnv names the interpreter {chosen}, which does not exist or cannot"
            " be run on this host"
        )
    return Interpreter(chosen)


def interpreter_in(folder: str) -> str | None:
    """Find bin/python in a folder, or in its only subfolder, as archives of a folder have it."""
    names = os.listdir(folder)
    for place in [folder, *(os.path.join(folder, name) for name in names if len(names) == 1)]:
        python = os.path.join(place, "bin", "python")
        if os.path.isfile(python) and os.access(python, os.X_OK):
            return python
    return None


def _open_archive(archive: PythonArchive) -> Interpreter:
    folder = f"{environment_place()}/{archive.sha256[:32]}"
    complete = f"{folder}/{_COMPLETE}"
    unpacking = f"{folder}-unpacking"
    # The process that is about to start inherits this lock, and holds it until its end.
    lock = hold(folder)
    try:
        if not os.path.exists(complete):
            # The lock of the folder is shared, and processes hold it for days. So the unpacking has
            # a lock of its own, for which the other processes wait.
            with locked(unpacking):
                if not os.path.exists(complete):
                    _unpack(archive, folder)
                    # The remover waits for the lock of the folder, which this process holds, so it
                    # can be started now.
                    with open(complete, "wb"):
                        remove_when_unlocked(folder)
                remove(unpacking)
    except BaseException:
        os.close(lock)
        remove_unused(unpacking)
        remove_unused(folder)
        raise
    python = interpreter_in(f"{folder}/env")
    assert python is not None
    return Interpreter(python, (lock,))


def _unpack(archive: PythonArchive, folder: str) -> None:
    started = time.monotonic()
    target = f"{folder}/env"
    # A process that was killed while it unpacked has left a part.
    shutil.rmtree(target, ignore_errors=True)
    path = path_on_host(archive.path)
    logger.info(
        "pythonEnv %s: unpacked %s in %.1f s: %s",
        archive.origin,
        path,
        time.monotonic() - started,
        _fill(target, path, archive.sha256),
    )


def _fill(target: str, path: str, sha256: str) -> str:
    os.makedirs(target, 0o700)
    if not os.path.isfile(path):
        raise ConfigurationError(f"the archive was not shipped with the job: it is not at {path}")
    if akdl.storage.files.sha256_of(path) != sha256:
        raise ConfigurationError("the archive has changed since the job was built")
    try:
        with open(path, "rb") as file:
            unpack_archive(file, target, links=True)
    except ArchiveError as error:
        raise ConfigurationError(f"the archive cannot be unpacked: {error}; {_PACK}") from None
    python = interpreter_in(target)
    if python is None:
        raise ConfigurationError(
            "expected bin/python at the root of the archive or in its only folder, found "
            f"{', '.join(sorted(os.listdir(target))[:10]) or 'nothing'}; {_PACK}"
        )
    conda_unpack = f"{os.path.dirname(python)}/conda-unpack"
    if os.path.isfile(conda_unpack):
        _printed(f"{python} {conda_unpack}", *_run([python, conda_unpack], _UNPACK_S))
    return versions_of(python)


def first_lines(python: str) -> str:
    """Sentence about lines of `.pth` files that an interpreter runs before all other code, newest
    first; "" without any.
    """
    root = os.path.dirname(os.path.dirname(python))
    found = []
    paths = glob.glob(f"{glob.escape(root)}/lib/python3*/site-packages/*.pth")
    # The file that was installed last is the likeliest cause of a new problem.
    for path in sorted(paths, key=os.path.getmtime, reverse=True):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
            found += [
                f"{path}: {line.strip():.80}"
                for line in file
                if line.startswith(("import ", "import\t"))
            ]
    if found:
        return f". Before all other code, this Python runs {'; '.join(found[:_SHOWN_LINES])}"
    return ""


def versions_of(python: str) -> str:
    return _printed(f"{python} -m akdl.process.preflight", *look_into(python))


def look_into(python: str, limit_s: float = _LOOK_S) -> tuple[int, str]:
    """Exit status and output of akdl's check of a Python, in which no packages of this program are
    visible.
    """
    return _run([python, "-m", "akdl.process.preflight"], limit_s)


def _run(command: list[str], timeout_s: float) -> tuple[int, str]:
    """Run a program as a child with the variables of a script, and return status and output.

    Raises:
        NoAnswerError: It did not end in time, and was killed with all that it had started.
    """
    folder = WorkFolder(())
    with contextlib.ExitStack() as closing:
        closing.callback(folder.remove)
        environment = variables(None, os.environ, command[0], folder)
        try:
            child = ChildProcess(
                command, environment, folder.path, lambda line: None, lambda: None, _KEPT_LINES
            )
        except OSError as error:
            raise ConfigurationError(_cannot_run(command[0], error)) from None
        # A stack calls them in the reverse order, so the child has ended when its folder goes.
        closing.callback(child.stop, 0.0)
        if not child.wait(timeout_s):
            place = child.place_of_abort() + first_lines(command[0])
            raise NoAnswerError(f"{' '.join(command)} did not end within {timeout_s:g} s{place}")
    return child.exit_status or 0, "\n".join(child.last_lines).strip()


def _printed(command: str, status: int, output: str) -> str:
    if status:
        raise ConfigurationError(
            f"{command} failed with status {status}: {output[-2000:]}; {_PACK}"
        )
    return output


def _cannot_run(python: str, error: OSError) -> str:
    if error.errno == errno.E2BIG:
        return (
            f"this host cannot run the interpreter {python}: its variables are larger than the"
            " system allows, on Linux 128 KB for each and usually 2 MB for all. Write large values"
            " to a user file instead of envVars"
        )
    if error.errno in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE):
        return (
            f"this host cannot start another process for the interpreter {python}: {error.strerror}"
        )
    return (
        f"this host cannot run the interpreter {python} ({error.strerror}); is it built for this"
        f" system and processor ({os.uname().sysname} {os.uname().machine})?"
    )


# These variables of the worker's own environment are passed on. It is a list of allowed names, so
# that no secret leaks by accident.
_ALLOWED = {
    *FOR_USERS,
    "HOME",
    "LANG",
    "LANGUAGE",
    "LD_LIBRARY_PATH",
    "LOGNAME",
    "PATH",
    "TZ",
    "USER",
    "ALL_PROXY",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
}
_ALLOWED_PREFIXES = (
    "CUDA_",
    "KMP_",
    "LC_",
    "MKL_",
    "NCCL_",
    "NVIDIA_",
    "OMP_",
    "OPENBLAS_",
    "TF_",
    "XLA_",
)


def variables(
    intra_op_parallelism: int | None,
    own: Mapping[str, str],
    python: str,
    folder: WorkFolder,
    asked_for: Sequence[str] = (),
) -> dict[str, str]:
    """Environment of a TensorFlow process. Later entries win: defaults, `own`, `asked_for`, ours.

    Args:
        intra_op_parallelism: Threads of one operation of TensorFlow; None for its own default.
        own: Variables of this process, of which the allowed ones are passed on.
        python: Path of the interpreter, whose folder comes first in PATH.
        folder: Work folder of the process.
        asked_for: The user's envVars: "NAME" passes a variable of `own`, "NAME=value" sets one.
    """
    passed = {
        name: value
        for name, value in own.items()
        if name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES)
    }
    for each in asked_for:
        name, is_given, value = each.partition("=")
        if is_given or name in own:
            passed[name] = value if is_given else own[name]
    # This one would be of another cluster. Ours is set when the group is complete.
    passed.pop("TF_CONFIG", None)
    return {
        # TensorFlow would print lines about instruction sets at its start.
        "TF_CPP_MIN_LOG_LEVEL": "1",
        # A process that is killed would lose the lines in Python's buffer, which often have the
        # reason.
        "PYTHONUNBUFFERED": "1",
        "PYTHONIOENCODING": "utf-8",
        # With this, a crash shows its place in Python. So does SIGABRT, even before any code of
        # ours runs.
        "PYTHONFAULTHANDLER": "1",
        # With gRPC's support of forks, a script that forks can hang in gRPC's own handlers.
        "GRPC_ENABLE_FORK_SUPPORT": "0",
        **MEMORY,
        **passed,
        "PATH": os.path.dirname(python) + os.pathsep + passed.get("PATH", os.defpath),
        "PYTHONPATH": folder.library,
        # Files that TensorFlow and scripts leave there are removed with the folder.
        "TMPDIR": folder.temporary,
        # Our socket that reserves the port stays open while TensorFlow binds the port, which needs
        # SO_REUSEPORT in both.
        "TF_GRPC_REUSE_PORT": "true",
        **(
            {}
            if intra_op_parallelism is None
            else {"TF_NUM_INTRAOP_THREADS": str(intra_op_parallelism)}
        ),
    }
