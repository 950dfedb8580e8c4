"""py4j's servers ask for a token, whoever has started the JVM."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import threading
from unittest.mock import Mock

import pytest

from bridge.workarounds import gateway
from tests.support.deadline import DEADLINE_S
from tests.support.environment import ENVIRONMENT

pytestmark = [pytest.mark.process, pytest.mark.flink]
ROOT = pathlib.Path(__file__).parents[3]

# The JVM calls back, in a new thread of this program as well; then strangers knock on both doors.
PROGRAM = """
import contextlib, sys, threading
{first}
from bridge.workarounds.pyflink_defects import open_gateway
from tests.children import intruder

gateway = open_gateway()
assert open_gateway() is gateway and gateway.gateway_parameters.auth_token
seen = []

class Called:
    def run(self):
        seen.append(threading.current_thread())

    class Java:
        implements = ["java.lang.Runnable"]

def call():
    gateway.jvm.java.lang.Thread(Called()).run()

call()
thread = threading.Thread(target=call)
thread.start()
thread.join()
java, python = gateway.gateway_parameters.port, gateway.get_callback_server().get_listening_port()
selector = gateway.jvm.java.lang.System.getProperty("log4j2.contextSelector") or "."
print(len(seen), intruder.calls_java(f"127.0.0.1:{{java}}"), intruder.calls_python(f"127.0.0.1:{{python}}"))
print(selector.rpartition(".")[2])
"""
PYFLINKS_OWN = "from pyflink.java_gateway import get_gateway; get_gateway()"

# As `flink run` does, which starts a gateway and then Python with its port. Here the program itself
# starts it, once all is imported: a gateway ends when no program has called within 10 s.
FLINK_RUNS = """
import os, pathlib, struct
import bridge.workarounds.pyflink_defects, tests.children.intruder
from pyflink.pyflink_gateway_server import launch_gateway_server_process
from tests.support.leftovers import wait_until

told = pathlib.Path({told!r})
arguments = ["-c", "org.apache.flink.client.python.PythonGatewayServer", "local"]
java = launch_gateway_server_process({{**os.environ, "_PYFLINK_CONN_INFO_PATH": str(told)}}, arguments)
wait_until(told.exists, "the gateway listens")
os.environ["PYFLINK_GATEWAY_PORT"] = str(struct.unpack("!I", told.read_bytes()[:4])[0])
"""


def run(first: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM.format(first=first)]
    done = subprocess.run(
        command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, timeout=10 * DEADLINE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# With this selector of logging contexts, ended clusters leave no threads of loggers.
@pytest.mark.parametrize(
    ("first", "selector"),
    [
        ("", "BasicContextSelector"),
        # the output of Java is tested with such a JVM
        pytest.param(PYFLINKS_OWN, "", marks=pytest.mark.long),
    ],
    ids=["akdl", "pyflink"],
)
@pytest.mark.fault("security", "The JVM of a program serves that program alone")
def test_jvm_started_by_the_program_serves_it_alone(first: str, selector: str) -> None:
    assert run(first) == f"2 False False\n{selector}\n"


@pytest.mark.fault("security", "The JVM of flink run serves its program alone")
def test_jvm_that_started_the_program_serves_it_alone(tmp_path: pathlib.Path) -> None:
    assert run(FLINK_RUNS.format(told=str(tmp_path / "port"))) == "2 False False\n\n"


# Java's next look at whether Python is there comes after its own side has the token.
LATE_TOKEN = f"""
import threading
import bridge.workarounds.pyflink_defects, tests.children.intruder
from py4j.java_gateway import CallbackServerParameters
from pyflink import java_gateway

called = threading.Event()
java_gateway.Watchdog.ping = lambda self: called.set() or True

def set_late(self, name, value):
    called.clear()
    assert called.wait({DEADLINE_S})
    object.__setattr__(self, name, value)

java_gateway.get_gateway()
CallbackServerParameters.__setattr__ = set_late
"""


def test_jvm_that_calls_while_only_it_has_the_token_does_not_end() -> None:
    assert run(LATE_TOKEN) == "2 False False\n\n"


def test_java_is_called_while_the_modules_of_beam_are_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    are_imported = threading.Event()
    monkeypatch.setattr(gateway, "_import_beam", are_imported.wait)
    launch = Mock()
    assert (
        gateway._launch(launch, "Main.java", "token", {}, ["-c", "Main", "local"])
        is launch.return_value
    )
    are_imported.set()


def test_output_of_java_to_stderr_does_not_block_it() -> None:
    printing = "gateway.jvm.System.err.println('x' * 200_000)"
    opened = "import bridge.workarounds.pyflink_defects as w; gateway = w.open_gateway()"
    assert run(f"{PYFLINKS_OWN}\n{opened}; {printing}") == "2 False False\n\n"


LOOKUPS = """
from py4j.java_gateway import GatewayClient
from bridge.workarounds.pyflink_defects import open_gateway

sent = []
send = GatewayClient.send_command
GatewayClient.send_command = lambda self, command, *more: (sent.append(command), send(self, command, *more))[1]
{first}

def asked(name):
    sent.clear()
    found = eval(name, {{"jvm": gateway.jvm}})
    return [each for each in sent if each.startswith("r\\nu\\n")], found

for name in ("jvm.java.util.ArrayList", "jvm.java.util.Missing"):
    print(len(asked(name)[0]), len(asked(name)[0]), type(asked(name)[1]).__name__)
"""


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("gateway = open_gateway()", ["3 0 JavaClass", "1 1 JavaPackage"]),
        pytest.param(
            "from pyflink.java_gateway import get_gateway; gateway = get_gateway()",
            ["3 3 JavaClass", "3 3 JavaPackage"],
            marks=pytest.mark.long,
        ),
    ],
    ids=["ours", "py4j's own, else the workaround can go"],
)
def test_java_packages_are_looked_up_once(first: str, expected: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOKUPS.format(first=first)],
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
        env=ENVIRONMENT,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == expected
