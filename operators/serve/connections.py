"""Connections of clients, which uvicorn alone would keep for as long as the clients stay.

A client has some seconds to send the header of a request, and the time of a request to take its
answer. When too many are connected, the connection that has waited longest for a request is closed,
so that a new client is always served. Requests that h11 accepts, but that serve an attack alone,
are refused.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

# A client gets this many seconds to send the header of a request, because uvicorn would wait for it
# without a limit.
_HEADER_S = 10
# Each line of code logs at most once in this many seconds, see `SparseLog`.
_LOG_S = 10
# h11 takes about 25 us for each piece of a body, and a read has at most 256 KB, so tiny chunks
# would stop the event loop.
_MOST_PIECES = 1000
# Each connection takes a file descriptor, and the model has files too, so connections get half of
# them at most.
_MOST = min(512, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
# asyncio accepts up to this many connections in one turn of its loop, before the first of them
# reaches `connection_made` and counts. So the number of connections can exceed `_MOST` by this much
# for a moment.
BACKLOG = 128


class _Requests(h11.Connection):
    """Parser that refuses bodies in tiny chunks, which stop the event loop, and those whose end a
    proxy may see elsewhere.
    """

    _pieces = 0

    def receive_data(self, data: bytes) -> None:
        # The count begins again with each read, since only many pieces in one read occupy the event
        # loop: `next_event` is then called for all of them in a row.
        self._pieces = 0
        super().receive_data(data)

    def next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        event = super().next_event()
        self._pieces += isinstance(event, h11.Data)
        names = {name for name, _ in event.headers} if isinstance(event, h11.Request) else set()
        # A request with two lengths may end elsewhere for a proxy in front of the server, which
        # would take the rest for a request of another client.
        if self._pieces > _MOST_PIECES or {b"content-length", b"transfer-encoding"} <= names:
            raise h11.RemoteProtocolError("tiny chunks, or two lengths")
        return event


class Connection(H11Protocol):
    """A connection, with `limit_s` seconds for a request and as many for its answer.

    uvicorn limits neither the time for a header nor that for taking an answer, so idle clients
    could occupy all connections. All methods are called by the event loop.
    """

    limit_s: float
    waits_since = 0.0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the connection that has waited longest if there are too many; this one if all
        others have a request.
        """
        super().connection_made(transport)
        # uvicorn's protocol has made a plain parser in its constructor. No byte has been read yet,
        # so it can still be replaced.
        self.conn = _Requests(h11.SERVER)
        self._watch()
        if len(self.connections) > _MOST:
            waiting = [
                each
                for each in self.connections
                if isinstance(each, Connection) and each.is_waiting()
            ]
            # A client with a request under way is never dropped for a new one. This connection
            # waits too, so the list is not empty.
            min(waiting, key=lambda each: each.waits_since).drop()

    def send_400_response(self, msg: str) -> None:
        """Refuse what h11 cannot read, even in the middle of a body or after the answer; the
        application sends nothing then.
        """
        if self.cycle:
            # The application may still be reading this request. uvicorn drops what an application
            # sends to a cycle that is disconnected, so its answer cannot follow the status 400.
            self.cycle.disconnected = True
        try:
            super().send_400_response(msg)
        except h11.LocalProtocolError:
            # h11 allows no second answer once one has begun, so only closing the connection is
            # left.
            self.drop()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the watch."""
        if self._timer:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Give the client time to take the answer. The next request may begin in here, if it was
        sent already.
        """
        self._watch()
        super().on_response_complete()

    def is_waiting(self) -> bool:
        """Test if the server waits for the client: for a request, for the rest of one, or until an
        answer is taken.
        """
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def drop(self) -> None:
        """Close at once, without the rest of an answer; the count must not wait for the
        event loop.
        """
        self.connections.discard(self)
        self.transport.abort()

    def _watch(self) -> None:
        if self._timer:
            self._timer.cancel()
        self.waits_since = self.loop.time()
        # Before the first request a connection has no cycle, so the short time for a header
        # applies.
        self._timer = self.loop.call_later(
            self.limit_s if self.cycle else _HEADER_S, self._look, self.cycle
        )

    def _look(self, last: RequestResponseCycle | None) -> None:
        """Drop a client whose request is still `last`: it has sent no other request since, or does
        not take the answer.
        """
        if self.cycle is last:
            self.drop()
        else:
            self._watch()


class SparseLog(logging.Filter):
    """Passes one record of each kind in some seconds, because clients can cause any number
    of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[str, int], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Test if no record of the same line of code was passed lately."""
        kind = (record.pathname, record.lineno)
        now = time.monotonic()
        is_due = now - self._last.get(kind, -_LOG_S) >= _LOG_S
        if is_due:
            self._last[kind] = now
        return is_due
