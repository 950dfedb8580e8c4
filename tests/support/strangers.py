"""Clients that speak no gRPC: they connect and say nothing, say nonsense, or say half of what they
should.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SILENT = 40  # clients
_random = random.Random(0)
_SAYINGS = [
    _PREFACE[:9],
    _PREFACE,
    _PREFACE + b"\xff\xff\xff\x00\x00\x00\x00\x00\x01",  # a frame of 16 MB, which never comes
    b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00",  # the begin of TLS
    _random.randbytes(100),
    _random.randbytes(100_000),
]


@contextmanager
def strangers(address: str) -> Iterator[None]:
    """Keep such clients connected to a gRPC server.

    Args:
        address: "host:port", or "unix:" and a path.
    """
    with ExitStack() as stack:
        for saying in [b""] * _SILENT + _SAYINGS:
            client = stack.enter_context(_connected(address))
            client.settimeout(5.0)
            with suppress(OSError):  # the server has hung up
                client.sendall(saying)
        yield


def _connected(address: str) -> socket.socket:
    if address.startswith("unix:"):
        client = socket.socket(socket.AF_UNIX)
        client.connect(address[len("unix:") :])
        return client
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)))
