"""Pythons that have imported TensorFlow or PyFlink already, for tests that start many and do not
look at their processes.

Their programs are small: each asks a process for a fork, see tests/children/python_forks.py. That
one ends with this process.
"""

from __future__ import annotations

import atexit
import functools
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile

from tests.support.deadline import DEADLINE_S

_CHILDREN = pathlib.Path(__file__).parents[1] / "children"
_DEFAULTS = ("TF115_PYTHON_ENV_PATH", "TF231_PYTHON_ENV_PATH")  # of `pythonEnv`
# What `akdl.entry` imports; akdl itself comes from the script's own folder. It is two thirds of the
# processor time of a small script.
_LIGHT = (
    "grpc",
    "numpy",
    "google.protobuf.json_format",
    "difflib",
    "runpy",
    "tarfile",
    "zipfile",
    "urllib.request",
    "uuid",
)
_CAN_RUN = hasattr(os, "pidfd_open")  # Linux


def choose_python(warm: bool, tensorflow: bool) -> None:
    """Choose whether operators without `pythonEnv` take a Python that has its packages, and
    TensorFlow, where it can run.
    """
    for name in _DEFAULTS:
        os.environ.pop(name, None)
    if warm:
        os.environ.update(warm_variables(tensorflow))


def warm_variables(tensorflow: bool = True) -> dict[str, str]:
    """Return what makes a program's operators without `pythonEnv` take one that has its packages,
    and TensorFlow, where it can run.
    """
    if not _CAN_RUN:
        return {}
    return dict.fromkeys(_DEFAULTS, warm_python() if tensorflow else light_python())


def choose_workers(warm: bool) -> None:
    """Choose whether Flink's workers are forks too: each subtask starts one, which says where it
    is, and ends.
    """
    from operators.flink import env

    # Beside other tests a task may take longer to start than the 10 s of the default.
    env._DEFAULTS["pekko.ask.timeout"] = "120 s"
    env._DEFAULTS.pop("python.executable", None)
    if warm and _CAN_RUN:
        env._DEFAULTS["python.executable"] = _program("pyflink.fn_execution.beam.beam_boot")


def warm_python() -> str:
    """Return the path of a program with TensorFlow, which takes what an interpreter takes; this one
    where none can run.
    """
    return _program("grpc", "tensorflow", "keras") if _CAN_RUN else sys.executable


def light_python() -> str:
    """Return the path of a program like `warm_python`, with the packages that akdl needs beside
    TensorFlow: for other scripts.
    """
    return _program(*_LIGHT) if _CAN_RUN else sys.executable


@functools.cache
def _program(*modules: str) -> str:
    folder = pathlib.Path(tempfile.mkdtemp(prefix="warm-"))
    program = folder / "python"
    program.write_text(f"#!{sys.executable} -IS\n{(_CHILDREN / 'forked_python.py').read_text()}")
    program.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen(128)
        process = subprocess.Popen(
            [sys.executable, str(_CHILDREN / "python_forks.py"), str(listener.fileno()), *modules],
            stdin=subprocess.PIPE, cwd="/", env=_environment(), pass_fds=[listener.fileno()], start_new_session=True,
        )  # fmt: skip

    def end() -> None:
        process.communicate(timeout=DEADLINE_S)
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return str(program)


def _environment() -> dict[str, str]:
    """Return variables as `bridge.host.interpreter` makes them: some are read when TensorFlow is
    imported.
    """
    mine = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AKDL_", "PYTHON", "TF_CONFIG"))
    }
    return {
        **mine, "TF_CPP_MIN_LOG_LEVEL": "1", "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8",
        "GRPC_ENABLE_FORK_SUPPORT": "0", "TF_GRPC_REUSE_PORT": "true",
    }  # fmt: skip
