"""How a group learns its addresses: each member announces itself to all through the dataflow.

`Announce` runs with one subtask per member, on the same TaskManager as that member's exchange (co-location). It reserves
a port there and sends (index, "host:port") to every member. No driver and no outside service takes part, so it works for
detached jobs and again after every restart.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from pyflink.common import Row
from pyflink.datastream import KeyedProcessFunction


class Announce(KeyedProcessFunction):  # type: ignore[misc]
    """Turns (key, ROW(index)) into one (key of a member, ROW(index, address)) for every member.

    Args:
        group: Unique name of the group.
        keys: The key of every member, by index.
    """

    def __init__(self, group: str, keys: Sequence[int]) -> None:
        self._group = group
        self._keys = keys

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        """Reserve a port on this host and announce it."""
        index = value[0]
        address = f"{_own_host()}:{_reserve_port(self._group, index)}"
        for key in self._keys:
            yield Row(key, Row(index, address))


_reserved: dict[tuple[str, int], socket.socket] = {}
_lock = threading.Lock()


def release_port(group: str, index: int) -> None:
    """Give up the reservation of a member that has ended; nothing happens where there is none."""
    with _lock:
        holder = _reserved.pop((group, index), None)
    if holder is not None:
        holder.close()


def _reserve_port(group: str, index: int) -> int:
    """Bind a free port and keep it: with SO_REUSEPORT and TF_GRPC_REUSE_PORT, TensorFlow can bind it beside us."""
    release_port(group, index)
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if hasattr(socket, "SO_REUSEPORT"):
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    holder.bind(("", 0))
    with _lock:
        _reserved[group, index] = holder
    port: int = holder.getsockname()[1]
    return port


def _own_host() -> str:
    """Return this host's address; its loopback address where its own name does not resolve."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
