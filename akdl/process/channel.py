"""The process's end of its channel to the bridge; each call carries the token that identifies the process."""

import contextlib
import sys
from typing import Any, Callable, Iterable, Iterator, List, Tuple, TypeVar

import grpc

from akdl.wire import Chunk, Cluster, Empty, Hello, Outcome, Output, Progress, Shares, Task, Wishes
from akdl.wire.service import SERVICE
from akdl.wire.token import TOKEN

Answer = TypeVar("Answer")


class ChannelError(RuntimeError):
    """The channel to the Flink side broke, or data received over it is incomplete."""


class Channel:
    """Calls to the bridge."""

    def __init__(self, address: str, token: str) -> None:
        # A proxy variable must not catch the loopback connection; messages are as large as one row may be.
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
            ("grpc.enable_http_proxy", 0),
        ]
        self._channel = grpc.insecure_channel(address, options=options)
        self._metadata: List[Tuple[str, str]] = [(TOKEN, token)]

    def connect(self, hello: Hello) -> Task:
        return self._call("Connect", hello, Task.FromString)

    def wait_for_cluster(self) -> Cluster:
        return self._call("WaitForCluster", Empty(), Cluster.FromString)

    def read(self) -> Iterator[Chunk]:
        """Yield chunks of rows; the last one has `end` set."""
        method = self._channel.unary_stream(
            _path("Read"), request_serializer=_serialize, response_deserializer=Chunk.FromString
        )
        try:
            yield from method(Empty(), metadata=self._metadata)
        except grpc.RpcError as error:
            raise _channel_error("Read", error) from error

    def write(self, messages: Iterable[Output]) -> None:
        """Send rows and commits until `messages` ends; return when the bridge has received all of them."""
        method = self._channel.stream_unary(
            _path("Write"), request_serializer=_serialize, response_deserializer=Empty.FromString
        )
        try:
            method(iter(messages), metadata=self._metadata)
        except grpc.RpcError as error:
            raise _channel_error("Write", error) from error

    def report(self, progress: Progress) -> Wishes:
        """Send the script's progress and receive requests to this process."""
        return self._call("Report", progress, Wishes.FromString)

    def wait_for_shares(self) -> Shares:
        """Wait until the rows of all workers are in files."""
        return self._call("WaitForShares", Empty(), Shares.FromString)

    def finish(self, outcome: Outcome) -> None:
        self._call("Finish", outcome, Empty.FromString)

    def close(self) -> None:
        self._channel.close()

    def _call(self, name: str, request: Any, deserialize: Callable[[bytes], Answer]) -> Answer:
        method = self._channel.unary_unary(_path(name), request_serializer=_serialize, response_deserializer=deserialize)
        try:
            answer: Answer = method(request, metadata=self._metadata, wait_for_ready=True)
        except grpc.RpcError as error:
            raise _channel_error(name, error) from error
        return answer


def _path(name: str) -> str:
    return f"/{SERVICE}/{name}"


def _serialize(message: Any) -> bytes:
    serialized: bytes = message.SerializeToString()
    return serialized


def _channel_error(name: str, error: grpc.RpcError) -> ChannelError:
    code, details = error.code(), error.details()
    with contextlib.suppress(OSError):  # the line often breaks because the parent is gone, and with it who reads this
        print(f"akdl: call {name} failed: {code} {details}", file=sys.stderr)
    return ChannelError(f"the line to the Flink task broke in {name}: {details} ({code.name})")
