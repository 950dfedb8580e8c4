"""Hosts have addresses and names of their own, and go with all that runs on them."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest

from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.network import network, why_not

pytestmark = pytest.mark.process
WHO = """
import socket, time
own = socket.gethostname()
print(own, socket.gethostbyname(own), socket.gethostbyname("localhost"), flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _possible() -> None:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.parametrize("own_name_is_loopback", [False, True])
def test_host_ends_with_its_processes(own_name_is_loopback: bool) -> None:
    with pytest.raises(ZeroDivisionError), network(1, own_name_is_loopback) as made:
        (host,) = made.hosts
        child = subprocess.Popen(
            host.command([sys.executable, "-c", WHO]), stdout=subprocess.PIPE, text=True
        )
        with child.stdout as output:
            said = output.readline().split()
        assert said == [
            host.name,
            "127.0.1.1" if own_name_is_loopback else host.address,
            "127.0.0.1",
        ]
        raise ZeroDivisionError
    assert child.wait(DEADLINE_S) == -9
    assert interfaces_and_namespaces_of(os.getpid()) == []


def test_networks_of_killed_programs_are_removed() -> None:
    code = "import os, signal; from tests.support.network import network\nwith network(2): os.kill(os.getpid(), signal.SIGKILL)"
    killed = subprocess.Popen([sys.executable, "-c", code], cwd=pathlib.Path(__file__).parents[2])
    # none beside this one removes what has a process's number
    os.waitid(os.P_PID, killed.pid, os.WEXITED | os.WNOWAIT)
    assert len(interfaces_and_namespaces_of(killed.pid)) == 1 + 2 + 2
    killed.wait()
    with network(1):
        pass
    wait_until(
        lambda: interfaces_and_namespaces_of(killed.pid) == [],
        "they are removed, perhaps by a test beside this one",
    )


def interfaces_and_namespaces_of(pid: int) -> list[Any]:
    found = os.listdir("/sys/class/net") + [
        path.name for path in pathlib.Path("/etc/netns").iterdir()
    ]
    return [name for name in found if name.startswith(f"akdl{pid}")]
