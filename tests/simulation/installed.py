"""The simulated clock, threads and channels in the place of the real ones, in the modules that a
schedule runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from akdl import entry
from akdl.process import channel
from akdl.rows import arriving_rows
from akdl.runner import cuts, output_writer
from bridge.flink import exchange, stream_exchange
from bridge.group import membership
from bridge.member import bridge_server, extra_input_delivery, member, observer
from tests.simulation import network, process
from tests.simulation.threads import Queues, Threading, Time
from tests.simulation.world import here


class _Registry:
    """`bridge.member.registry`, which watches the members of a real program."""

    @staticmethod
    def add(member: object) -> None:
        """Nobody looks at it."""

    discard = add

    @staticmethod
    def note_failure(group: str, attempt: int, error: str) -> None:
        """There is no console."""


class _Channels:
    """The module `grpc`, for a process of a script."""

    RpcError = network.grpc.RpcError

    @staticmethod
    def insecure_channel(address: str, options: object) -> network.Channel:
        return network.Channel(address)


def _server(calls: object, token: str, reason: str, shares_port: bool = False) -> network.Server:
    return network.Server(token, reason)


def _nothing(*arguments: object) -> None:
    """Ports are not reserved, and functions have no worker of Beam."""


_REPLACED: list[tuple[Any, str, Any]] = [
    (member, "threading", Threading),
    (member, "time", Time),
    (member, "registry", _Registry),
    (member, "ScriptProcess", process.SimulatedProcess),
    (observer, "threading", Threading),
    (observer, "time", Time),
    (extra_input_delivery, "threading", Threading),
    (bridge_server, "guarded_server", _server),
    (bridge_server, "socket_address", lambda path: path),
    (membership, "threading", Threading),
    (membership, "time", Time),
    (membership, "_open_channel", lambda address, certificate: network.Channel(address)),
    (membership, "guarded_server", _server),
    (exchange, "time", Time),
    (exchange, "hold", _nothing),
    (exchange, "release", _nothing),
    (exchange, "close_with_worker", _nothing),
    (exchange, "give_large_blocks_back", _nothing),
    (stream_exchange, "time", Time),
    (channel, "grpc", _Channels),
    (arriving_rows, "threading", Threading),
    (output_writer, "threading", Threading),
    (output_writer, "queue", Queues),
    (cuts, "time", Time),
    (entry, "threading", Threading),
    (entry, "WorkClock", lambda: here().running.process.child),
    (entry, "script_stacks", lambda: ""),
    (
        entry,
        "abort_collectives",
        lambda returned: here().running.process.child.abort_collectives(returned),
    ),
]


@contextmanager
def installed() -> Iterator[None]:
    """Let these modules run in the world of the schedule."""
    before = [(module, name, getattr(module, name)) for module, name, _ in _REPLACED]
    for module, name, value in _REPLACED:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
