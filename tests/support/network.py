"""Hosts of their own on this machine: network namespaces with an address and a name each, joined by
a bridge.

    this program, JobManager          host 0            host 1
      bridge 10.199.x.1 ----------- 10.199.x.2 ------- 10.199.x.3

Where wires are asked for, frames between a host and the bridge go through a `Wire`, which may lose,
delay or cut them.

A host has its own loopback interface, ports, host name and /etc/hosts; files and processes are
those of this machine. It reaches this program and the other hosts, and nothing else. Linux and root
only: ask `why_not` first.
"""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import psutil

from tests.support.wire import Wire

_TIMEOUT_S = 20.0
_FILES = pathlib.Path("/etc/netns")  # `ip netns exec` lays what is in here over /etc
# name of a bridge or a namespace: process id, letter, number of the host
_OURS = re.compile(r"akdl(\d+)[a-z]\d*\b")
_letters = itertools.cycle("abcdefghijklmnopqrstuvwxyz")
_RENAME = (
    "import os, socket, sys; socket.sethostname(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])"
)
_CONNECT = """
import socket, sys
for address in sys.argv[1:]:
    try:
        socket.create_connection((address, 9), timeout=3)
    except ConnectionRefusedError:
        pass  # somebody is there to refuse
"""


@dataclass(frozen=True)
class Host:
    """One host.

    Args:
        name: Its host name, and the name of its namespace.
        address: Its IPv4 address.
    """

    name: str
    address: str

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs `command` on this host, in the process that is started for
        it.
        """
        inside = ["unshare", "--uts", sys.executable, "-c", _RENAME, self.name]
        return ["ip", "netns", "exec", self.name, *inside, *command]


@dataclass(frozen=True)
class Network:
    """Hosts that reach each other.

    Args:
        address: Address of this program, as the hosts see it.
        hosts: The hosts.
        wires: Of each host, if they were asked for.
    """

    address: str
    hosts: tuple[Host, ...]
    wires: tuple[Wire, ...] = ()


@contextmanager
def network(
    count: int, own_name_is_loopback: bool = False, wires: bool = False
) -> Iterator[Network]:
    """Make hosts; at the end, end what runs on them and remove them.

    Args:
        count: How many, at most 250.
        own_name_is_loopback: A host's own name stands for 127.0.1.1, as on a fresh Debian, instead
            of its address.
        wires: Whether each host has a `Wire`.
    """
    _remove_forgotten()
    bridge = f"akdl{os.getpid()}{next(_letters)}"
    prefix = _free_prefix()
    hosts = tuple(Host(f"{bridge}{index}", f"{prefix}.{index + 2}") for index in range(count))
    made = []
    with ExitStack() as stack:
        stack.callback(_remove, bridge, [host.name for host in hosts])
        _ip("link", "add", bridge, "type", "bridge")
        _ip("address", "add", f"{prefix}.1/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for host in hosts:
            _write_files(host, hosts, own_name_is_loopback)
            _ip("netns", "add", host.name)
            # The end inside is made inside: there it may have a plain name, and it goes with the
            # namespace.
            _ip(
                "link", "add", host.name, "type", "veth", "peer", "name", "eth0", "netns", host.name
            )
            if wires:
                port, end = f"{host.name}b", f"{host.name}w"
                _ip("link", "add", port, "type", "veth", "peer", "name", end)
                _ip("link", "set", port, "master", bridge, "up")
                for name in (host.name, end):
                    _ip("link", "set", name, "up")
                made.append(Wire(host.name, end))
                stack.callback(made[-1].close)
            else:
                _ip("link", "set", host.name, "master", bridge, "up")
            _ip("-n", host.name, "address", "add", f"{host.address}/24", "dev", "eth0")
            _ip("-n", host.name, "link", "set", "eth0", "up")
            _ip("-n", host.name, "link", "set", "lo", "up")
        yield Network(f"{prefix}.1", hosts, tuple(made))


@functools.cache
def why_not() -> str | None:
    """Say why there can be no hosts on this machine; None where there can be. Tries it with two."""
    missing = [program for program in ("ip", "unshare") if shutil.which(program) is None]
    if missing:
        return f"hosts need the program {missing[0]} (Linux; packages iproute2 and util-linux)"
    if os.geteuid() != 0:
        return "hosts need root, to make network namespaces"
    try:
        with network(2) as made:
            first, second = made.hosts
            probe = [sys.executable, "-c", _CONNECT, made.address, second.address]
            subprocess.run(
                first.command(probe), check=True, capture_output=True, text=True, timeout=_TIMEOUT_S
            )
    except subprocess.CalledProcessError as error:
        words = (error.stderr or error.stdout or "").strip().splitlines() or [str(error)]
        return f"hosts cannot be made here, or do not reach each other: {words[-1]}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"hosts cannot be made here: {error}"
    return None


def _ip(*arguments: str) -> str:
    command = ["ip", *arguments]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=_TIMEOUT_S
    ).stdout


def _free_prefix() -> str:
    """Return the start of a range that no interface of this machine is in."""
    taken = set(re.findall(r"10\.199\.\d+", _ip("-4", "address")))
    numbers = (f"10.199.{(os.getpid() + step) % 256}" for step in range(256))
    return next(prefix for prefix in numbers if prefix not in taken)


def _write_files(host: Host, hosts: Sequence[Host], own_name_is_loopback: bool) -> None:
    folder = _FILES / host.name
    folder.mkdir(parents=True)
    own = "127.0.1.1" if own_name_is_loopback else host.address
    lines = ["127.0.0.1 localhost", "::1 localhost"]
    lines += [f"{own if each is host else each.address} {each.name}" for each in hosts]
    (folder / "hosts").write_text("".join(f"{line}\n" for line in lines))


def _remove(bridge: str, namespaces: Sequence[str]) -> None:
    """Remove what there is of these; what is not there is no error, as after a failure half-way."""
    for name in namespaces:
        for pid in _ip_if_there("netns", "pids", name).split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass  # ended by itself
        for link in (name, f"{name}b"):
            _ip_if_there("link", "delete", link)
        _ip_if_there("netns", "delete", name)
        shutil.rmtree(_FILES / name, ignore_errors=True)
    _ip_if_there("link", "delete", bridge)


def _ip_if_there(*arguments: str) -> str:
    command = ["ip", *arguments]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=_TIMEOUT_S
    ).stdout


def _remove_forgotten() -> None:
    """Remove what programs left that were killed, whose process ids are gone."""
    namespaces = {line.split()[0] for line in _ip_if_there("netns", "list").splitlines()}
    bridges = set(
        re.findall(r"^\d+: (\w+)", _ip_if_there("link", "show", "type", "bridge"), re.MULTILINE)
    )
    for name in sorted(namespaces | bridges):
        match = _OURS.fullmatch(name)
        if match is not None and not psutil.pid_exists(int(match.group(1))):
            _remove(name, [name])
