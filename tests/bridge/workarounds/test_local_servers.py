"""Nobody but the program reaches the servers of its local jobs: another user and another host try
all that ran code or read files.
"""

from __future__ import annotations

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from bridge.workarounds.local_servers import _private_address, close_servers
from tests.support import network
from tests.support.environment import ENVIRONMENT
from tests.support.leftovers import DEADLINE_S, wait_until

pytestmark = pytest.mark.process
ROOT = pathlib.Path(__file__).parents[3]


def as_another_user(doors: list[str]) -> list[str]:
    """Return what another user of this host can do."""
    return _worked(
        [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tests.children.intruder",
            "65534",
            "127.0.0.1",
            *doors,
        ]
    )


def from_another_host(doors: list[str]) -> list[str]:
    """Return what somebody on another host can do."""
    ports = [door for door in doors if not door.startswith("unix:")]
    with network.network(1) as hosts:
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tests.children.intruder",
            "0",
            hosts.address,
            *ports,
        ]
        return _worked(hosts.hosts[0].command(command))


def _worked(command: list[str]) -> list[str]:
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return list(json.loads(run.stdout))


def open_ports(program: psutil.Process) -> list[str]:
    """Return the ports at which a program and its JVM listen."""
    found = []
    for process in [program, *(child for child in program.children() if child.name() == "java")]:
        found += [
            str(each.laddr.port)
            for each in process.net_connections("tcp")
            if each.status == psutil.CONN_LISTEN
        ]
    return found


@contextmanager
def local_program(owner: str, folder: pathlib.Path) -> Iterator[list[str]]:
    """Run a program with a local job; yield the doors that it has while the job's Python function
    runs.
    """
    running, waits = folder / "running", folder / "waits"
    waits.touch()
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tests.children.open_program",
        owner,
        str(running),
        str(waits),
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, **pipes) as program:  # type: ignore[call-overload]
        try:
            wait_until(
                lambda: running.exists() or program.poll() is not None,
                "the job runs",
                4 * DEADLINE_S,
            )
            assert program.poll() is None, program.stderr.read()
            address = program.stdout.readline().strip()
            yield [
                *open_ports(psutil.Process(program.pid)),
                *([address] if address.startswith("unix:") else []),
            ]
            waits.unlink()
            printed, errors = program.communicate(timeout=4 * DEADLINE_S)
            assert (printed, program.returncode) == ("done\n", 0), errors
        finally:
            program.kill()


@pytest.mark.slow
@pytest.mark.flink
@pytest.mark.own_processes
@pytest.mark.parametrize(
    "owner", ["akdl", *(pytest.param(each, marks=pytest.mark.long) for each in ("user", "table"))]
)
@pytest.mark.fault("security", "The servers of a local job refuse other users and other hosts")
def test_servers_of_a_local_program_refuse_other_users_and_hosts(
    owner: str, tmp_path: pathlib.Path
) -> None:
    reason = network.why_not()
    if reason is not None:
        pytest.skip(reason)
    with local_program(owner, tmp_path) as doors:
        assert len(doors) > 8  # Beam's servers for a worker are six
        assert (as_another_user(doors), from_another_host(doors)) == ([], [])


@pytest.mark.flink
def test_requested_web_ui_listens_on_this_host_unless_told_otherwise() -> None:
    from operators.flink.env import resetEnv, useLocalEnv

    try:
        plain, asked = (
            useLocalEnv(1, config=config).stenv.get_config()
            for config in ({}, {"rest.bind-port": "0"})
        )
        assert plain.get("security.ssl.rest.enabled", "") == "true"
        assert (
            asked.get("security.ssl.rest.enabled", "") == ""
            and asked.get("rest.bind-address", "") == "localhost"
        )
        elsewhere = useLocalEnv(1, config={"rest.bind-address": "0.0.0.0"}).stenv
        close_servers(elsewhere)
        assert elsewhere.get_config().get("rest.bind-address", "") == "0.0.0.0"
    finally:
        resetEnv()


def test_socket_is_placed_outside_a_long_path_of_temporary_files(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    path = _private_address()[len("unix:") :]
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
    assert os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700 and not os.listdir(long)
