"""How a group learns its addresses: each member announces itself to all through the dataflow.

`Announce` runs with one subtask per member, on the same TaskManager as that member's exchange (co-location). It reserves
ports there and sends ROW(index, host, port, group port) to every member. No driver and no outside service takes part, so
it works for detached jobs and again after every restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyflink.common import Row, Types
from pyflink.datastream import KeyedProcessFunction
from pyflink.datastream.state import ValueStateDescriptor

from bridge.addresses import own_host, reserve

LOOK_MS = 500  # how often a stream looks whether it has been restored from a checkpoint


class Announce(KeyedProcessFunction):  # type: ignore[misc]
    """Turns (key, ROW(index)) into one (key of a member, ROW(index, host, port, group port)) for every member.

    Args:
        group: Unique name of the group.
        keys: The key of every member, by index.
        host_network: Network in which each host's address is looked for; None for any.
        again: Announce again when the job goes on from a checkpoint, where the elements do not come again.
    """

    def __init__(self, group: str, keys: Sequence[int], host_network: str | None, again: bool = False) -> None:
        self._again = again
        self._group = group
        self._keys = keys
        self._host_network = host_network

    def open(self, runtime_context: Any) -> None:
        """Learn which attempt this is."""
        self._attempt = runtime_context.get_attempt_number()
        self._announced = False
        self._member = runtime_context.get_state(ValueStateDescriptor("akdl_member", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Row]:
        """Reserve ports on this host and announce them."""
        index = value[0]
        if self._again:
            self._member.update(index)
            self._look_again(ctx)
        # A restored timer may have been faster than the element, where a checkpoint came before the element's source had ended.
        return iter(()) if self._announced else self._announce(index)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Row]:
        """Announce what was announced before the checkpoint: timers are restored with the state."""
        self._look_again(ctx)
        return iter(()) if self._announced else self._announce(self._member.value())

    def _look_again(self, ctx: Any) -> None:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + LOOK_MS)

    def _announce(self, index: int) -> Iterator[Row]:
        self._announced = True
        host = own_host(self._host_network)
        ports = reserve(self._group, index, self._attempt)
        for key in self._keys:
            yield Row(key, Row(index, host, *ports))
