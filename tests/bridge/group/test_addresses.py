"""Addresses that others can use, and ports that nobody else is given."""

from __future__ import annotations

import pathlib
import socket
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from bridge.exceptions import ConfigurationError
from bridge.group import addresses
from bridge.group.addresses import (
    Address,
    folder_id,
    hold,
    members_on_host,
    own_host,
    release,
    reserve,
)
from tests.support.network import why_not
from tests.support.ports import can_bind


def test_own_host_is_an_address_of_this_host() -> None:
    with socket.create_server((own_host(), 0)):
        pass


@pytest.mark.fault("network", "A host name that resolves to loopback or another host is not used")
def test_a_name_that_means_loopback_or_another_host_is_not_announced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = addresses.address_towards("192.0.2.1") or "127.0.0.1"
    for named in ("127.0.1.1", "203.0.113.9"):
        monkeypatch.setattr(socket, "gethostbyname", lambda name, named=named: named)
        assert own_host() == out


def test_host_without_name_and_route_uses_an_interface_or_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def unknown(name: Any) -> None:
        raise OSError

    monkeypatch.setattr(socket, "gethostbyname", unknown)
    monkeypatch.setattr(addresses, "address_towards", lambda target: None)
    monkeypatch.setattr(addresses, "own_addresses", lambda: ["127.0.0.1", "::1"])
    assert own_host() == "127.0.0.1"
    monkeypatch.setattr(
        addresses, "own_addresses", lambda: ["127.0.0.1", "192.0.2.7", "2001:db8::7"]
    )
    assert own_host() == "192.0.2.7", "a network without a way out of it"


def test_interfaces_that_are_up_have_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(family: int, address: str) -> list[SimpleNamespace]:
        return [SimpleNamespace(family=family, address=address)]

    interfaces = {
        "eth0": found(socket.AF_INET6, "2001:db8::7")
        + found(socket.AF_INET6, "fe80::7%eth0")
        + found(-1, "00:00:5e:00:53:01"),
        "eth0:1": found(socket.AF_INET, "192.0.2.7"),
        "eth1": found(socket.AF_INET, "192.0.2.8"),
    }
    monkeypatch.setattr(psutil, "net_if_addrs", lambda: interfaces)
    monkeypatch.setattr(
        psutil,
        "net_if_stats",
        lambda: {name: SimpleNamespace(isup=name == "eth0") for name in ("eth0", "eth1")},
    )
    assert addresses.own_addresses() == ["192.0.2.7", "2001:db8::7"]


_WITH_IPV6_ONLY = """
ip link add v0 type veth peer name v1
for end in lo v0 v1; do ip link set $end up; done
ip -6 address add fd00:5::7/64 dev v0 nodad
ip -6 route add default dev v0
exec "$0" -c "from bridge.group.addresses import own_host; print(own_host(), own_host('fd00:5::/32'))"
"""


@pytest.mark.process
@pytest.mark.fault("network", "A host with IPv6 only works")
def test_host_with_ipv6_only_announces_its_ipv6_address() -> None:
    if why_not() is not None:
        pytest.skip(str(why_not()))
    command = ["unshare", "--net", "sh", "-ec", _WITH_IPV6_ONLY, sys.executable]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["fd00:5::7", "fd00:5::7"], done.stderr


def test_ipv6_addresses_stand_in_brackets() -> None:
    address = Address("fd00:5::7", 4711, 4712)
    assert (address.tensorflow, address.group) == ("[fd00:5::7]:4711", "[fd00:5::7]:4712")


def test_host_network_chooses_the_address_or_is_refused() -> None:
    assert own_host("127.0.0.0/8").startswith("127.")
    with pytest.raises(
        ConfigurationError,
        match="hostNetwork: expected an address in 203.0.113.0/24 on the host .*, got 127.0.0.1",
    ):
        own_host("203.0.113.0/24")


def test_a_reserved_port_is_not_given_to_others_but_can_be_shared() -> None:
    port, group_port = reserve("g", 0, 0)
    try:
        assert port != group_port
        assert not can_bind(port) and not can_bind(group_port)
        assert can_bind(port, SO_REUSEPORT=1), "as TensorFlow does"
        assert can_bind(port, SO_REUSEADDR=1), "as the store of PyTorch does"
    finally:
        release("g", 0, 0)
    assert can_bind(port)


def test_attempts_hold_ports_of_their_own() -> None:
    first = Address("127.0.0.1", *reserve("g", 0, 0))
    hold("g", 0, 0, first)
    second = reserve("g", 0, 1)
    try:
        assert not can_bind(first.port)
        release("g", 0, 0, first)
        assert can_bind(first.port) and not can_bind(second[0])
    finally:
        release("g", 0, 1)


def test_ports_reserved_by_another_process_are_held() -> None:
    elsewhere = [socket.socket(), socket.socket()]  # as another process reserves them
    for holder in elsewhere:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("", 0))
    address = Address("127.0.0.1", *(holder.getsockname()[1] for holder in elsewhere))
    try:
        hold("g", 0, 0, address)
        for holder in elsewhere:
            holder.close()
        assert not can_bind(address.port) and not can_bind(address.group_port)
        assert address.tensorflow == f"127.0.0.1:{address.port}"
    finally:
        release("g", 0, 0, address)
    assert can_bind(address.port)


@pytest.mark.fault("network")
def test_a_port_that_another_program_took_is_an_error() -> None:
    with socket.create_server(("", 0)) as taken:
        with pytest.raises(ConfigurationError, match="was taken by another program"):
            hold("g", 0, 0, Address("127.0.0.1", taken.getsockname()[1], 0))


@pytest.mark.parametrize("attempt", [0, 2])
def test_new_reservation_of_a_member_releases_its_former_ports(attempt: int) -> None:
    former = reserve("g", 0, 0)
    try:
        reserve("g", 0, attempt)
        assert can_bind(former[0]) and can_bind(former[1])
    finally:
        release("g", 0, attempt)


def test_jobs_of_one_operator_that_run_at_once_hold_ports_of_their_own() -> None:
    first, second = (Address("127.0.0.1", *reserve("g", 0, 0)) for _ in range(2))
    try:
        for address in (first, second):
            hold("g", 0, 0, address)
        assert not can_bind(first.port) and not can_bind(second.port)
    finally:
        release("g", 0, 0, first)
        assert can_bind(first.group_port) and not can_bind(second.group_port)
        release("g", 0, 0, second)
    assert can_bind(second.port)


def test_members_on_host_have_one_host_and_one_folder() -> None:
    group = [
        Address(host, port, 9, folder)
        for port, (host, folder) in enumerate([("a", "1"), ("b", "1"), ("a", "2"), ("a", "1")])
    ]
    assert [members_on_host(group, index) for index in range(4)] == [[0, 3], [1], [2], [0, 3]]


def test_folder_is_told_apart_from_another_one_at_its_path(tmp_path: pathlib.Path) -> None:
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    first = folder_id(str(folder))
    assert first == folder_id(str(link))
    folder.rename(tmp_path / "old")
    folder.mkdir()
    assert folder_id(str(folder)) != first == folder_id(str(tmp_path / "old"))
