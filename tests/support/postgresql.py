"""A PostgreSQL server on this machine, from the packages of the system."""

from __future__ import annotations

import getpass
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from bridge.exceptions import BridgeError
from operators.flink.jars import paths_of
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.ports import free_ports

_DEBIAN = "/usr/lib/postgresql"


@dataclass(frozen=True)
class Database:
    """The database `shop` of a server, for a user of that name without a password.

    Args:
        programs: Where PostgreSQL's programs are.
        port: The port of the server on 127.0.0.1.
    """

    programs: pathlib.Path
    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def run(self, statements: str) -> list[str]:
        """Run statements, and return the rows of queries as lines, with | between columns."""
        command = [
            str(self.programs / "psql"),
            f"postgresql://shop@{self.address}/shop",
            "-qAt",
            "-v",
            "ON_ERROR_STOP=1",
        ]
        done = subprocess.run(
            command, input=statements, capture_output=True, text=True, timeout=2 * DEADLINE_S
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def options(self, table: str) -> str:
        """Return the options of Flink for a table."""
        return f"'connector' = 'jdbc', 'url' = 'jdbc:postgresql://{self.address}/shop', 'username' = 'shop', 'password' = 'shop', 'table-name' = '{table}'"


@contextmanager
def database() -> Iterator[Database]:
    """Yield a database, with Flink's connector in the cache; skip the test where one of them cannot
    be had.
    """
    found = sorted(pathlib.Path(_DEBIAN).glob("*/bin/initdb")) or [
        pathlib.Path(shutil.which("initdb") or "")
    ]
    if not found[-1].is_file():
        pytest.skip("PostgreSQL is not installed: there is no initdb")
    try:
        paths_of(["jdbc-postgresql"])
    except BridgeError as error:
        pytest.skip(f"Flink's connector for PostgreSQL cannot be had: {error}")
    programs, user = found[-1].parent, _user()
    # folders of tests are closed to other users
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        shutil.chown(folder, user)
        data = os.path.join(folder, "data")
        make = [
            str(programs / "initdb"),
            "-D",
            data,
            "-U",
            "shop",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]
        done = subprocess.run(
            make, cwd=folder, user=user, capture_output=True, text=True, timeout=4 * DEADLINE_S
        )
        assert done.returncode == 0, done.stdout + done.stderr
        with _server(programs, user, folder) as found:
            yield found


@contextmanager
def _server(programs: pathlib.Path, user: str, folder: str) -> Iterator[Database]:
    (port,) = free_ports(1)
    settings = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "fsync": "off",
        "max_connections": "30",
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    log = pathlib.Path(folder) / "log"
    with log.open("wb") as output:
        command = [
            str(programs / "postgres"),
            "-D",
            os.path.join(folder, "data"),
            "-p",
            str(port),
            *options,
        ]
        server = subprocess.Popen(command, cwd=folder, user=user, stdout=output, stderr=output)
    try:

        def answers() -> bool:
            assert server.poll() is None, log.read_text()[-3000:]
            ready = subprocess.run(
                [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
            )
            return ready.returncode == 0

        wait_until(answers, "PostgreSQL answers", 4 * DEADLINE_S)
        make = [
            str(programs / "createdb"),
            "-h",
            "127.0.0.1",
            "-p",
            str(port),
            "-U",
            "shop",
            "shop",
        ]
        subprocess.run(make, check=True, timeout=2 * DEADLINE_S)
        yield Database(programs, port)
    finally:
        server.send_signal(signal.SIGINT)  # ends connections that are open, and its own children
        server.wait(2 * DEADLINE_S)


def _user() -> str:
    """The user of the server, which refuses to run as root."""
    if os.getuid() != 0:
        return getpass.getuser()
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
