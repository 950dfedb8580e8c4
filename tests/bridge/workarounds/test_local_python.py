"""The Python of local jobs: what it runs itself, and what it leaves to Python."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from concurrent import futures

import grpc
import pytest

from bridge.workarounds import local_python
from bridge.workarounds.local_python import python_of_local_jobs, start_worker_request
from tests.support.leftovers import DEADLINE_S

BOOT = ["-m", "pyflink.fn_execution.beam.beam_boot", "--id=5-1", "--provision_endpoint=localhost:1"]


def test_message_to_the_driver_is_that_of_beam() -> None:
    from apache_beam.portability.api.org.apache.beam.model.fn_execution.v1 import beam_fn_api_pb2

    params = {"SHORT": "", "LONG": "ż" * 70_000, **os.environ}
    message = beam_fn_api_pb2.StartWorkerRequest.FromString(
        start_worker_request("5-1", "localhost:41927", params)
    )
    assert (message.worker_id, message.provision_endpoint.url) == ("5-1", "localhost:41927")
    assert dict(message.params) == params


@pytest.mark.process
@pytest.mark.parametrize("error", [b"", b"\x0a\x03why"])
def test_local_worker_calls_the_driver_and_imports_little(error: bytes) -> None:
    asked: list[bytes] = []

    def start(request: bytes, context: grpc.ServicerContext) -> bytes:
        asked.append(request)
        return error

    handler = grpc.method_handlers_generic_handler(
        "org.apache.beam.model.fn_execution.v1.BeamFnExternalWorkerPool",
        {"StartWorker": grpc.unary_unary_rpc_method_handler(start)},
    )
    server = grpc.server(futures.ThreadPoolExecutor(1), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        done = subprocess.run(
            [python_of_local_jobs(), *BOOT], capture_output=True, text=True, timeout=4 * DEADLINE_S,
            env={
                **os.environ, "PYTHON_LOOPBACK_SERVER_ADDRESS": f"127.0.0.1:{port}", "PYTHONPROFILEIMPORTTIME": "1",
                "http_proxy": "http://127.0.0.1:9", "no_proxy": "",
            },
        )  # fmt: skip
    finally:
        server.stop(0).wait()
    assert (done.returncode, len(asked)) == (int(bool(error)), 1), done.stderr
    assert "why" in done.stderr or not error
    assert (
        "| grpc\n" in done.stderr
        and "pandas" not in done.stderr
        and "apache_beam" not in done.stderr
    )


@pytest.mark.process
def test_other_commands_run_in_a_real_python() -> None:
    without = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHON_LOOPBACK_SERVER_ADDRESS"
    }
    command = [
        python_of_local_jobs(),
        "-c",
        "import sys; print(sys.executable, sys.argv[1:])",
        "a b",
        "$c",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=without, check=True)
    assert done.stdout.strip() == f"{sys.executable} ['a b', '$c']"
    done = subprocess.run(
        [python_of_local_jobs(), *BOOT[:2]], capture_output=True, text=True, env=without
    )
    assert done.returncode == 1 and "No id provided" in done.stdout + done.stderr, "PyFlink's own"


@pytest.mark.process
@pytest.mark.fault(
    "security",
    "A module of Python that another user left in the current folder does not run in a process",
)
def test_modules_in_the_current_folder_do_not_run(tmp_path: pathlib.Path) -> None:
    for name in ("traceback.py", "json.py", "runpy.py"):
        (tmp_path / name).write_text("raise SystemExit('planted')")
    without = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHON_LOOPBACK_SERVER_ADDRESS"
    }
    command = [python_of_local_jobs(), "-m", "json.tool"]
    done = subprocess.run(
        command, input="[1]", capture_output=True, text=True, env=without, cwd=tmp_path
    )
    assert (done.returncode, done.stdout.split()) == (0, ["[", "1", "]"]), done.stderr


@pytest.mark.parametrize(("name", "mode"), [("a folder", 0o755), ("no-programs", 0o644)])
def test_a_folder_with_a_blank_or_without_programs_gives_the_interpreter(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: int
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "python").touch(mode)
    monkeypatch.setattr(local_python, "_program", lambda: str(folder / "python"))
    assert python_of_local_jobs() == sys.executable


def test_python_of_local_jobs_is_in_the_folder_of_the_program() -> None:
    from bridge.host.program_folder import program_folder

    assert python_of_local_jobs().startswith(program_folder())
