"""Addresses that members announce: a host address that the others can reach, and ports that nobody else takes.

Ports are held by sockets that are bound and do not listen. With SO_REUSEPORT here and TF_GRPC_REUSE_PORT there, TensorFlow
can listen on a port beside its holder, which gets no connection, while no other program is given it by chance.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
from collections.abc import Sequence
from typing import NamedTuple

import psutil

from bridge.exceptions import ConfigurationError

# RFC 5737 and 3849: nobody is there, and nothing is sent; it only asks for the way out.
_NOBODY = ("192.0.2.1", "2001:db8::1")


class Address(NamedTuple):
    """Where a member is found: TensorFlow's server at `port`, and, of member 0, the group line at `group_port`.

    `folder` is the id of the folder of its host in which it shares files with other members, see `folder_id`.
    """

    host: str
    port: int
    group_port: int
    folder: str = ""

    @property
    def tensorflow(self) -> str:
        """As TF_CONFIG has it."""
        return with_port(self.host, self.port)

    @property
    def group(self) -> str:
        """Of the group line, as gRPC has it."""
        return with_port(self.host, self.group_port)


def with_port(host: str, port: int) -> str:
    """Return "host:port"; an IPv6 address stands in brackets there."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def neighbours(addresses: Sequence[Address], index: int) -> list[int]:
    """Return the members that can share files with a member, itself among them, in their order."""
    place = addresses[index].host, addresses[index].folder
    return [other for other, address in enumerate(addresses) if (address.host, address.folder) == place]


def folder_id(path: str) -> str:
    """Return what tells a folder from others that have its path on this host, such as those of other containers, or users."""
    status = os.stat(path)
    return f"{status.st_dev}-{status.st_ino}-{os.geteuid()}"


def own_host(network: str | None = None) -> str:
    """Return an address of this host by which other hosts can reach it.

    That is the IPv4 address of the host's own name; where this is a loopback address, or that of another host, the address on
    the way out, of IPv4 or else of IPv6; where there is no way out, the first one that others may reach, or else 127.0.0.1.

    Args:
        network: Network to take the address from, such as "10.1.0.0/16", for hosts that have several.
    """
    if network is not None:
        inside = ipaddress.ip_network(network, strict=False)
        own = own_addresses()
        found = next((address for address in own if ipaddress.ip_address(address) in inside), None)
        if found is None:
            raise ConfigurationError(
                f"hostNetwork {network}: the host {socket.gethostname()} has no address in this network; "
                f"it has {', '.join(own)}"
            )
        return found
    try:
        named = socket.gethostbyname(socket.gethostname())
    except OSError:
        named = "127.0.0.1"
    own = own_addresses()
    others_reach = [address for address in own if not ipaddress.ip_address(address).is_loopback]
    if named in others_reach:
        return named
    return next(filter(None, [*map(address_towards, _NOBODY), *others_reach]), "127.0.0.1")


def own_addresses() -> list[str]:
    """Return the addresses of the interfaces that are up, IPv4 first; addresses with a scope are left out."""
    up = {name for name, state in psutil.net_if_stats().items() if state.isup}  # without aliases such as eth0:1
    found = [
        (each.family, each.address)
        for name, addresses in psutil.net_if_addrs().items()
        for each in addresses
        if name.partition(":")[0] in up and each.family in (socket.AF_INET, socket.AF_INET6) and "%" not in each.address
    ]
    return [address for _, address in sorted(found, key=lambda each: each[0] != socket.AF_INET)]


def reserve(group: str, index: int, attempt: int) -> tuple[int, int]:
    """Find two free ports for a member and hold them in this Python process."""
    holders = [_bound(0), _bound(0)]
    release(group, index, attempt)  # those of a task that has failed before it could do so
    with _lock:
        _held[group, index, attempt] = holders
    return holders[0].getsockname()[1], holders[1].getsockname()[1]


def hold(group: str, index: int, attempt: int, address: Address) -> None:
    """Go on holding ports that perhaps another Python process on this host has reserved, which may end now."""
    with _lock:
        if (group, index, attempt) in _held:
            return
    try:
        holders = [_bound(address.port), _bound(address.group_port)]
    except OSError as error:
        raise ConfigurationError(f"a port of {address} was taken by another program before it could be used: {error}") from None
    with _lock:
        _held[group, index, attempt] = holders


def release(group: str, index: int, attempt: int) -> None:
    """Give up the ports of a member that has ended; nothing happens where there are none."""
    with _lock:
        holders = _held.pop((group, index, attempt), [])
    for holder in holders:
        holder.close()


_held: dict[tuple[str, int, int], list[socket.socket]] = {}
_lock = threading.Lock()


def _bound(port: int) -> socket.socket:
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if hasattr(socket, "SO_REUSEPORT"):
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind(("", port))
    except BaseException:
        holder.close()
        raise
    return holder


def address_towards(target: str) -> str | None:
    """Return the own address from which this host would reach another; nothing is sent."""
    with socket.socket(socket.AF_INET6 if ":" in target else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((target, 9))
        except OSError:
            return None
        address: str = probe.getsockname()[0]
    return address
