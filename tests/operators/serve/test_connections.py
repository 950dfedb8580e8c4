"""Clients that send nothing, half of a request, or take no answer: a real uvicorn with small
limits.
"""

from __future__ import annotations

import contextlib
import http.client
import logging
import re
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import pytest
import uvicorn

from operators.serve import connections
from operators.serve.connections import Connection, SparseLog
from tests.support.deadline import SLOWER
from tests.support.leftovers import DEADLINE_S, wait_until

ANSWER = b"a" * (8 << 20)  # more than the buffers of a connection


async def application(
    scope: Mapping[str, Any],
    receive: Callable[[], Awaitable[Mapping[str, Any]]],
    send: Callable[[Mapping[str, Any]], Awaitable[None]],
) -> None:
    """Answer a short text, or a long one, or only when the body has been read."""
    while scope["path"] == "/read" and (await receive()).get("more_body"):
        pass
    body = ANSWER if scope["path"] == "/long" else b"short"
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-length", b"%d" % len(body))],
        }
    )
    await send({"type": "http.response.body", "body": body})


class Server(uvicorn.Server):
    port: int


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server with at most four connections, which waits half a second for a header, and one for
    an answer, each times the factor of a slow machine.
    """
    monkeypatch.setattr(connections, "_MOST", 4)
    monkeypatch.setattr(connections, "_HEADER_S", 0.5 * SLOWER)
    monkeypatch.setattr(Connection, "limit_s", 1.0 * SLOWER, raising=False)
    config = uvicorn.Config(
        application, http=Connection, lifespan="off", access_log=False, log_level="warning"
    )
    config.timeout_keep_alive = 600  # so that only the time of `Connection` ends a connection
    server = Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server.port = listening.getsockname()[1]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield server
        finally:
            server.should_exit = server.force_exit = True
            thread.join(DEADLINE_S)
            assert not thread.is_alive()


def connected(port: int, sent: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
    client.sendall(sent)
    return client


def is_closed(client: socket.socket) -> bool:
    """Wait for the end of a connection; what the server sends before does not matter."""
    with contextlib.suppress(ConnectionError):
        while client.recv(1 << 16):
            pass
    return True


def answer(port: int) -> bytes:
    with contextlib.closing(
        http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
    ) as connection:
        connection.request("GET", "/")
        return connection.getresponse().read()


@pytest.mark.fault(
    "prediction",
    "A client of the REST server that sends nothing or half a header is disconnected in time",
)
@pytest.mark.parametrize(
    "sent",
    [
        b"",
        pytest.param(b"G", marks=pytest.mark.long),
        pytest.param(b"GET / HTTP/1.1\r\nHost: a\r\nX-A: ", marks=pytest.mark.long),
        # a whole request before
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nX-A: ",
        # the application answers, but the rest is missing
        pytest.param(
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1", marks=pytest.mark.long
        ),
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_clients_that_send_half_a_request_are_disconnected(server: Server, sent: bytes) -> None:
    with connected(server.port, sent) as client:
        assert is_closed(client)
    assert answer(server.port) == b"short"


@pytest.mark.fault(
    "prediction",
    "A client of the REST server that does not read its answer is disconnected in time",
)
@pytest.mark.parametrize("requests", [1, pytest.param(3, marks=pytest.mark.long)])
def test_client_that_does_not_read_its_answer_is_disconnected(
    server: Server, requests: int
) -> None:
    with connected(server.port, b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n" * requests) as client:
        assert client.recv(12) == b"HTTP/1.1 200"
        wait_until(lambda: not server.server_state.connections, "the end of the connection")
    assert answer(server.port) == b"short"


@pytest.mark.fault(
    "security",
    "Bodies over REST that could hide a second request, or stop the server by tiny chunks, are refused",
)
@pytest.mark.parametrize(
    ("path", "sent", "expected"),
    [
        ("/", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", [b"400"]),
        ("/", b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n12", [b"400"]),
        ("/read", b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 10_000, [b"400"]),
        ("/", b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 100_000, [b"400"]),
        ("/read", b"Transfer-Encoding: chunked\r\n\r\n-1\r\n", [b"400"]),
        ("/", b"Content-Length: 1\r\n\r\n1" + b"\0\r\n\r\n", [b"200", b"400"]),
        ("/read", b"Transfer-Encoding: chunked\r\n\r\n" + b"400\r\n%s\r\n" % bytes(1024) * 2000 + b"0\r\n\r\n", [b"200"]),
    ],
)  # fmt: skip
def test_ambiguous_and_tiny_chunked_bodies_are_refused(
    server: Server, path: str, sent: bytes, expected: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    with connected(server.port) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(b"POST %s HTTP/1.1\r\nHost: a\r\n%s" % (path.encode(), sent))
        found = b""
        with contextlib.suppress(ConnectionError):
            while piece := client.recv(1 << 16):
                found += piece
        # a reset may overtake an answer
        assert re.findall(rb"HTTP/1.1 (\d+)", found) in (expected, [])
    wait_until(lambda: not server.server_state.connections, "the end of the connection")
    assert answer(server.port) == b"short" and "Traceback" not in caplog.text


@pytest.mark.fault(
    "prediction",
    "Any number of idle connections to the REST server leaves room for the next client",
)
def test_the_oldest_idle_connection_gives_way(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_HEADER_S", 10 * DEADLINE_S)
    with contextlib.ExitStack() as stack:
        idle = [
            stack.enter_context(connected(server.port, b"GET / HTTP/1.1\r\nHost: a\r\nX-A: "))
            for _ in range(4)
        ]
        assert answer(server.port) == b"short"
        assert is_closed(idle[0])
        idle[3].sendall(b"a\r\n\r\n")
        assert idle[3].recv(12) == b"HTTP/1.1 200"
        for number in range(20):
            body = b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n1"
            stack.enter_context(connected(server.port, body if number % 2 else b""))
            assert answer(server.port) == b"short"


@pytest.mark.fault("prediction", "Clients cannot fill the log of the REST server")
def test_a_log_has_one_line_of_each_kind_in_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    log, now = SparseLog(), [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    first, second = (logging.makeLogRecord({"pathname": "a.py", "lineno": line}) for line in (1, 2))
    assert [log.filter(each) for each in (first, first, second, first, second)] == [
        True,
        False,
        True,
        False,
        False,
    ]
    now[0] = 10.0
    assert log.filter(first) and not log.filter(first)
