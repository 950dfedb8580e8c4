"""The process's end of its channel to the bridge; each call carries the token that identifies it.

The calls have an order, which the bridge checks: `connect` returns the task, `wait_for_cluster`
ends when the addresses of the group are there, rows are read and written, and `finish` sends the
outcome. `proto/exchange.proto` describes the messages.
"""

import contextlib
from typing import Any, Iterable, Iterator, Type, TypeVar

import grpc
from google.protobuf.message import Message

from akdl.process.preflight import say
from akdl.wire import Chunk, Cluster, Empty, Hello, Outcome, Output, Progress, Shares, Task, Wishes
from akdl.wire.service import SERVICE
from akdl.wire.token import TOKEN

Answer = TypeVar("Answer", bound=Message)


class ChannelError(RuntimeError):
    """The channel to the Flink side broke, or data received over it is incomplete."""


class Channel:
    """A connection to the bridge for the life of the process. Calls may come from any thread.

    Every failed call raises ChannelError. A broken channel is not repaired; the process then ends.
    """

    def __init__(self, address: str, token: str) -> None:
        # A proxy of the environment cannot reach this host's loopback address, and a row may be
        # larger than gRPC's default limit of 4 MB.
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.enable_http_proxy", 0),
        ]
        self._channel = grpc.insecure_channel(address, options=options)
        self._metadata = ((TOKEN, token),)

    def connect(self, hello: Hello) -> Task:
        return self._call("Connect", hello, Task)

    def wait_for_cluster(self) -> Cluster:
        return self._call("WaitForCluster", Empty(), Cluster)

    def read(self) -> Iterator[Chunk]:
        """Yield the chunks of this process, the end mark last; waits for Flink between them."""
        method = self._channel.unary_stream(
            f"/{SERVICE}/Read", Empty.SerializeToString, Chunk.FromString
        )
        with _errors_of("Read"):
            yield from method(Empty(), metadata=self._metadata)

    def write(self, messages: Iterable[Output]) -> None:
        """Send rows and commits until `messages` ends; return when the bridge has received all of
        them.
        """
        method = self._channel.stream_unary(
            f"/{SERVICE}/Write", Output.SerializeToString, Empty.FromString
        )
        with _errors_of("Write"):
            method(iter(messages), metadata=self._metadata)

    def report(self, progress: Progress) -> Wishes:
        """Send the progress; the answer holds what the group wishes from this process."""
        return self._call("Report", progress, Wishes)

    def wait_for_shares(self) -> Shares:
        return self._call("WaitForShares", Empty(), Shares)

    def finish(self, outcome: Outcome) -> None:
        self._call("Finish", outcome, Empty)

    def close(self) -> None:
        self._channel.close()

    def _call(self, name: str, request: Any, answer: Type[Answer]) -> Answer:
        """Call without a deadline, because a call may wait for the group as long as Flink needs.

        The thread `akdl-parent` ends the process if the bridge dies meanwhile.
        """
        method = self._channel.unary_unary(
            f"/{SERVICE}/{name}", type(request).SerializeToString, answer.FromString
        )
        with _errors_of(name):
            # `wait_for_ready` lets the call wait for a connection instead of failing at the first
            # refused attempt.
            received: Answer = method(request, metadata=self._metadata, wait_for_ready=True)
        return received


@contextlib.contextmanager
def _errors_of(name: str) -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        code, details = error.code(), error.details()
        say(f"call {name} failed: {code} {details}")
        raise ChannelError(
            f"the channel to the Flink task broke in {name}: {details} ({code.name})"
        ) from error
