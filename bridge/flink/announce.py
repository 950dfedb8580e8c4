"""Exchange of the addresses of a group's members through the dataflow.

The driver takes no part, so that detached jobs and restarts work. Announce is co-located with the
exchange, so that the address is that of the host where the member's process runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pyflink.common import Row
from pyflink.datastream import ProcessFunction, RuntimeContext

from bridge.flink.elements import Element
from bridge.flink.keys import keys_of_subtasks
from bridge.folders.temporary_places import shared_place
from bridge.group.addresses import Address, folder_id, own_host, reserve


class Announce(ProcessFunction):  # type: ignore[misc]
    """Turns each START into an ADDRESS for every member, on the TaskManager of that member's
    exchange. It has no state.
    """

    def __init__(
        self, group: str, keys: Sequence[int], host_network: str | None, tmp_dirs: str = ""
    ) -> None:
        self._group = group
        self._keys = keys
        self._host_network = host_network
        self._tmp_dirs = tmp_dirs

    def open(self, runtime_context: RuntimeContext) -> None:
        self._attempt = runtime_context.get_attempt_number()
        size = runtime_context.get_number_of_parallel_subtasks()
        # The jobs of an elastic training share this function, and each has its own number of
        # members.
        if size != len(self._keys):
            self._keys = [each[0] for each in keys_of_subtasks(size)]
        self._is_announced = False

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterator[Row]:
        """Reserve two ports at the first START of this attempt, and send them to all members."""
        # Each subtask that gathers rows sends a START, and the first one is enough.
        if self._is_announced:
            return
        self._is_announced = True
        _, (_, index, _, _) = value
        host = own_host(self._host_network)
        place = shared_place(self._tmp_dirs)
        address = json.dumps(
            [host, *reserve(self._group, index, self._attempt), folder_id(place)]
        ).encode()
        for key in self._keys:
            yield Row(key, Row(Element.ADDRESS.value, index, 0, address))


def announced_address(address: bytes) -> Address:
    """Read the content of an ADDRESS element, which `Announce` writes."""
    return Address(*json.loads(address))
