"""Ports for servers that start later."""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from typing import Any


def free_ports(count: int, address: str = "127.0.0.1") -> list[int]:
    """Return ports that are free, below those that Linux gives to whoever asks for any port: their
    servers start only later.
    """
    # tests seed the other one, and those beside these would look at the same ports
    draw = random.SystemRandom()
    found: set[int] = set()
    while len(found) < count:
        port = draw.randrange(10_000, 32_000)
        with suppress(OSError), socket.create_server((address, port)):
            found.add(port)
    return list(found)


def answers(port: int) -> bool:
    """Whether a program listens at the port of 127.0.0.1."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def can_bind(port: int, **options: Any) -> bool:
    """Whether a program that sets these socket options gets the port."""
    with socket.socket() as probe:
        for option in options:
            probe.setsockopt(socket.SOL_SOCKET, getattr(socket, option), 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True
