"""The address of a member: a host address that other hosts can reach, and two ports.

TensorFlow needs all addresses of a group before it starts a server, so a port has to be chosen, and
kept from other programs, before anything listens on it. Here it is bound with SO_REUSEPORT and
never listens: TensorFlow, which sets the option too, can listen on it, and no other program gets
it. PyTorch's store, which listens on the port of member 0 in its place, sets SO_REUSEADDR only, so
that is set as well: Linux then gives the port to a program that sets it and asks for just this
number, and to no program that takes any free port.

Roles and addresses together make TF_CONFIG, in which the chief is worker 0, and parameter servers
follow the workers.
"""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import threading
from collections.abc import Sequence
from typing import NamedTuple

import psutil

from bridge.exceptions import ConfigurationError

# These addresses are reserved by RFC 5737 and 3849. Nothing is sent to them: they only select the
# interface of the default route.
_OUTSIDE = ("192.0.2.1", "2001:db8::1")


class Address(NamedTuple):
    """Address of a member, which travels to all others as an element of Flink.

    TensorFlow's server listens at `port`. Each member reserves a `group_port`, of which only that
    of member 0 is used, for the group's server.
    """

    host: str
    port: int
    group_port: int
    # Members of a host with equal folders share files in them, see `folder_id`.
    folder: str = ""

    @property
    def tensorflow(self) -> str:
        return with_port(self.host, self.port)

    @property
    def group(self) -> str:
        return with_port(self.host, self.group_port)


def with_port(host: str, port: int) -> str:
    """Join host and port; an IPv6 address needs brackets, as it has colons itself."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def members_on_host(addresses: Sequence[Address], index: int) -> list[int]:
    """Return the members that can share files with member `index`, including itself, in order."""
    # Containers of one host may have one address and other folders, so both have to be equal.
    place = addresses[index].host, addresses[index].folder
    return [
        other for other, address in enumerate(addresses) if (address.host, address.folder) == place
    ]


def folder_id(path: str) -> str:
    """Identify a folder among folders with the same path on this host, for example in other
    containers or of other users.
    """
    status = os.stat(path)
    return f"{status.st_dev}-{status.st_ino}-{os.geteuid()}"


def own_host(network: str | None = None) -> str:
    """Return an address of this host for others.

    Without `network` these are tried: the IPv4 of the host's name, the interface of the default
    route, then any address that is not a loopback, and 127.0.0.1 for a host without a network.

    Raises:
        ConfigurationError: The host has no address in `network`.
    """
    own = own_addresses()
    if network is not None:
        inside = ipaddress.ip_network(network, strict=False)
        found = next((address for address in own if ipaddress.ip_address(address) in inside), None)
        if found is None:
            raise ConfigurationError(
                f"hostNetwork: expected an address in {network} on the host {socket.gethostname()},"
                f" got {', '.join(own)}"
            )
        return found
    try:
        named = socket.gethostbyname(socket.gethostname())
    except OSError:
        named = "127.0.0.1"
    others_reach = [address for address in own if not ipaddress.ip_address(address).is_loopback]
    # /etc/hosts often maps the host's own name to a loopback address, which other hosts cannot use.
    # The name may also lead to another host, whose address is not among the own ones.
    if named in others_reach:
        return named
    return next(filter(None, [*map(address_towards, _OUTSIDE), *others_reach]), "127.0.0.1")


def own_addresses() -> list[str]:
    """Return the addresses of the interfaces that are up, IPv4 first, without addresses that have a
    scope.
    """
    # psutil lists an alias such as eth0:1 among the addresses, but not among the interfaces.
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}
    found = [
        (each.family, each.address)
        for name, addresses in psutil.net_if_addrs().items()
        for each in addresses
        if name.partition(":")[0] in up
        and each.family in (socket.AF_INET, socket.AF_INET6)
        and "%" not in each.address
    ]
    return [address for _, address in sorted(found, key=lambda each: each[0] != socket.AF_INET)]


def reserve(group: str, index: int, attempt: int) -> tuple[int, int]:
    """Choose two free ports for a member, and bind them until `hold`, `release`, or the next such
    call for this member.
    """
    holders = [_bound(0), _bound(0)]
    with _lock:
        # A previous task may have failed before it released its ports.
        left = [key for key in _reserved if key[:2] == (group, index) and key[2] <= attempt]
        former = [holder for key in left for holder in _reserved.pop(key)]
        _reserved[group, index, attempt] = holders
    for holder in former:
        holder.close()
    return holders[0].getsockname()[1], holders[1].getsockname()[1]


def hold(group: str, index: int, attempt: int, address: Address) -> None:
    """Hold the ports of a member until `release` of its address.

    The Python process that reserved them may end now. Both processes hold the ports for a moment,
    so there is no gap in which another program could take one. In a local run both are the same
    process, which has bound them already, unless another job of the operator has reserved others.
    """
    with _lock:
        holders = _reserved.get((group, index, attempt))
        if holders is not None and holders[0].getsockname()[1] == address.port:
            _held[address] = _reserved.pop((group, index, attempt))
            return
    try:
        holders = [_bound(address.port), _bound(address.group_port)]
    except OSError as error:
        raise ConfigurationError(
            f"a port of {address} was taken by another program before it could be used: {error}."
            " Run the job again"
        ) from None
    with _lock:
        _held[address] = holders


def release(group: str, index: int, attempt: int, address: Address | None = None) -> None:
    """Give up the ports of a member's address, or without an address the reserved ones."""
    with _lock:
        holders = (
            _reserved.pop((group, index, attempt), [])
            if address is None
            else _held.pop(address, [])
        )
    for holder in holders:
        holder.close()


# Ports of members whose address has not arrived, by group, member and attempt.
_reserved: dict[tuple[str, int, int], list[socket.socket]] = {}
# Jobs of one operator that run at once have the same groups and attempts, and other addresses.
_held: dict[Address, list[socket.socket]] = {}
_lock = threading.Lock()


def _bound(port: int) -> socket.socket:
    """Bind a port, 0 for any free one, on all interfaces, without listening."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        for option in (socket.SO_REUSEPORT, socket.SO_REUSEADDR):
            holder.setsockopt(socket.SOL_SOCKET, option, 1)
        holder.bind(("", port))
    except BaseException:
        holder.close()
        raise
    return holder


def address_towards(target: str) -> str | None:
    """Return the address from which this host would send to another one; None without a route."""
    # To connect a datagram socket sends nothing; the system only chooses the interface.
    with socket.socket(
        socket.AF_INET6 if ":" in target else socket.AF_INET, socket.SOCK_DGRAM
    ) as probe:
        try:
            # The port does not matter, because nothing is sent to it.
            probe.connect((target, 9))
        except OSError:
            return None
        address: str = probe.getsockname()[0]
    return address


def role(index: int, num_workers: int) -> tuple[str, int]:
    """Return task type and task index of a member in TF_CONFIG.

    TensorFlow counts workers apart from the chief, so worker 0 of TF_CONFIG is member 1.
    """
    if index == 0:
        return "chief", 0
    if index < num_workers:
        return "worker", index - 1
    return "ps", index - num_workers


def label(index: int, num_workers: int) -> str:
    """Name of a member in errors and logs, with the type and the number of TF_CONFIG."""
    kind, number = role(index, num_workers)
    return f"{kind} {number}"


def tf_config(index: int, num_workers: int, addresses: Sequence[str]) -> str:
    cluster: dict[str, list[str]] = {}
    for member, address in enumerate(addresses):
        # The index of a process in TF_CONFIG is its place in this list, so the order of members
        # counts.
        cluster.setdefault(role(member, num_workers)[0], []).append(address)
    task_type, task_index = role(index, num_workers)
    return json.dumps({"cluster": cluster, "task": {"type": task_type, "index": task_index}})
