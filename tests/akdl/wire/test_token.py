"""What a server does with calls that bring no token: it reads nothing of them, and keeps no thread
for them.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from akdl.wire.token import TOKEN
from tests.support.leftovers import DEADLINE_S

pytestmark = pytest.mark.process

# It has two threads, says its port, and at the end how many MB its memory has grown.
SERVER = """
import sys
from concurrent import futures
import grpc
from akdl.wire.token import guarded_server

def peak_mb():  # of this program alone: getrusage counts the memory of who started it
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1]) // 1024

server = guarded_server(futures.ThreadPoolExecutor(2), "secret", "no token")
length = grpc.unary_unary_rpc_method_handler(lambda message, context: str(len(message)).encode())
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Test", {"Length": length}),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
before = peak_mb()
sys.stdin.read()
print(peak_mb() - before)
server.stop(None)
"""


@pytest.fixture
def server() -> Iterator[tuple[Any, grpc.Channel]]:
    with subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        options = [("grpc.max_send_message_length", -1), ("grpc.enable_http_proxy", 0)]
        with grpc.insecure_channel(
            f"127.0.0.1:{int(process.stdout.readline())}", options=options
        ) as channel:
            yield process, channel
        process.kill()


@pytest.mark.fault("security", "A large message without the token is refused unread")
def test_large_message_without_the_token_is_not_read(server: tuple[Any, grpc.Channel]) -> None:
    process, channel = server
    length = channel.unary_unary("/Test/Length")
    large = bytes(100_000_000)
    for metadata in ([], [(TOKEN, "guessed")]):
        with pytest.raises(grpc.RpcError) as caught:
            length(large, metadata=metadata, timeout=DEADLINE_S)
        assert (
            caught.value.code() == grpc.StatusCode.UNAUTHENTICATED
            and caught.value.details() == "no token"
        )
    assert length(b"12345", metadata=[(TOKEN, "secret")], timeout=DEADLINE_S) == b"5"
    grown_mb, _ = process.communicate("")
    assert int(grown_mb) < 40


@pytest.mark.fault(
    "security", "Calls without the token that never send their message occupy no thread"
)
def test_calls_without_the_token_that_never_send_hold_no_thread(
    server: tuple[Any, grpc.Channel],
) -> None:
    channel, never = server[1], threading.Event()

    def nothing() -> Iterator[bytes]:
        never.wait(DEADLINE_S)
        yield from ()

    calls = [
        channel.stream_unary("/Test/Length").future(nothing(), timeout=DEADLINE_S) for _ in range(8)
    ]
    try:
        assert (
            channel.unary_unary("/Test/Length")(
                b"123", metadata=[(TOKEN, "secret")], timeout=DEADLINE_S
            )
            == b"3"
        )
        assert {call.code() for call in calls} == {grpc.StatusCode.UNAUTHENTICATED}
    finally:
        never.set()
