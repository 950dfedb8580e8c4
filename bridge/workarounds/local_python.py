"""The Python that Flink starts for each Python function of a local job, only to have it call this
program back.

Defect of PyFlink: each of these processes imports Beam and pandas and then only waits: 1.4 s of CPU
time and 140 MB. `python_of_local_jobs` returns a copy of this file, which imports gRPC alone, and
is `python` for all other calls.
"""

from __future__ import annotations

import functools
import os
import pathlib
import pkgutil
import shlex
import sys
import tempfile

# Flink sets this variable, with the address of the driver, if functions run in the driver.
_ADDRESS = "PYTHON_LOOPBACK_SERVER_ADDRESS"
_BOOT = "pyflink.fn_execution.beam.beam_boot"
_CALL = "/org.apache.beam.model.fn_execution.v1.BeamFnExternalWorkerPool/StartWorker"
_SHELL = """#!/bin/sh
if [ -n "${address}" ] && [ "$2" = {boot} ]; then
    shift 2
    exec {python} {calls_back} "$@"
elif [ "$1" = -m ]; then
    shift
    exec {python} -c {run_module} "$@"
fi
exec {python} "$@"
"""


def python_of_local_jobs() -> str:
    """Path for Flink's option `python.executable` in local jobs."""
    path = _program()
    # Flink's script for Python workers cannot start a path with blanks, and the system cannot start
    # a program on a disk that is mounted with noexec.
    return path if os.access(path, os.X_OK) and not any(map(str.isspace, path)) else sys.executable


@functools.cache
def _program() -> str:
    from akdl.process.preflight import RUN_MODULE

    # A copy of this file runs as a program without our packages, so they are imported only here.
    from bridge.host.program_folder import program_folder

    folder = pathlib.Path(tempfile.mkdtemp(dir=program_folder()))
    calls_back = folder / "calls_back.py"
    calls_back.write_bytes(pkgutil.get_data(__package__, "local_python.py") or b"")
    words = {
        "python": sys.executable,
        "calls_back": str(calls_back),
        "boot": _BOOT,
        "run_module": RUN_MODULE,
    }
    shell = folder / "python"
    text = _SHELL.format(
        address=_ADDRESS, **{name: shlex.quote(word) for name, word in words.items()}
    )
    shell.write_text(text, encoding="utf-8")
    shell.chmod(0o755)
    return str(shell)


def start_worker_request(worker_id: str, provision_endpoint: str, params: dict[str, str]) -> bytes:
    """Beam's message StartWorkerRequest, see beam_fn_api.proto.

    It is serialized by hand, because this program imports gRPC alone, and not Beam's messages.
    """
    entries = [
        _field(10, _field(1, name.encode()) + _field(2, value.encode()))
        for name, value in params.items()
    ]
    return b"".join(
        [_field(1, worker_id.encode()), _field(5, _field(1, provision_endpoint.encode())), *entries]
    )


def _field(number: int, value: bytes) -> bytes:
    head = bytearray([number << 3 | 2])
    length = len(value)
    while length > 127:
        head.append(length & 127 | 128)
        length >>= 7
    head.append(length)
    return bytes(head) + value


def main(arguments: list[str]) -> None:
    """Ask the driver for a worker, in the same way as PyFlink's beam_boot, and wait until it has
    ended.
    """
    import argparse

    import grpc

    parser = argparse.ArgumentParser()
    for name in ("--id", "--provision_endpoint"):
        parser.add_argument(name, required=True)
    parser.add_argument("--semi_persist_dir", default="/tmp")
    given = parser.parse_known_args(arguments)[0]
    params = {**os.environ, "SEMI_PERSISTENT_DIRECTORY": given.semi_persist_dir}
    # The driver is on this host, so no proxy may get the call.
    options = [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(os.environ[_ADDRESS], options=options) as channel:
        call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(_CALL)
        failed = call(start_worker_request(given.id, given.provision_endpoint, params))
    if failed:
        raise SystemExit(f"Error starting worker: {failed.decode(errors='replace')}")


if __name__ == "__main__":
    main(sys.argv[1:])
