"""How a group learns its addresses: each member announces itself to all through the dataflow.

`Announce` runs with one subtask per member, on the same TaskManager as that member's exchange (co-location). It reserves
ports there and sends ROW(index, host, port, group port) to every member. No driver and no outside service takes part, so
it works for detached jobs and again after every restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyflink.common import Row
from pyflink.datastream import KeyedProcessFunction

from bridge.addresses import own_host, reserve


class Announce(KeyedProcessFunction):  # type: ignore[misc]
    """Turns (key, ROW(index)) into one (key of a member, ROW(index, host, port, group port)) for every member.

    Args:
        group: Unique name of the group.
        keys: The key of every member, by index.
        host_network: Network in which each host's address is looked for; None for any.
    """

    def __init__(self, group: str, keys: Sequence[int], host_network: str | None) -> None:
        self._group = group
        self._keys = keys
        self._host_network = host_network

    def open(self, runtime_context: Any) -> None:
        """Learn which attempt this is."""
        self._attempt = runtime_context.get_attempt_number()

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        """Reserve ports on this host and announce them."""
        index = value[0]
        host = own_host(self._host_network)
        ports = reserve(self._group, index, self._attempt)
        for key in self._keys:
            yield Row(key, Row(index, host, *ports))
