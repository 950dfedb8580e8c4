"""gRPC between simulated processes: real messages and real handlers, and a network that delays,
loses and repeats calls.

Calls that stay on a host are late, but neither lost nor repeated, as those of a socket. Between
hosts, a call may be lost on its way or on its way back, may be handled twice, and may overtake an
earlier one.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator
from typing import Any, Optional

import grpc

from akdl.wire.token import TOKEN
from tests.simulation.world import Over, Process, World, here

WINDOW = 3  # messages of a stream on their way


class SimulatedError(grpc.RpcError):
    """What a caller gets of a call that failed."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(f"{code.name}: {details}")
        self._code, self._details = code, details

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details


class Network:
    """Servers by their address, and the state of the links between hosts."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.servers: dict[str, list[Server]] = {}
        self.cut: set[str] = set()  # hosts that nothing reaches or leaves
        self.loss = self.repeats = 0.0  # probabilities, of calls between hosts
        self.slowest_s = 0.02
        self.messages = 0
        self.at_message: dict[int, Callable[[], None]] = {}
        self._lost: dict[Process, int] = {}  # calls in a row
        world.network = self  # type: ignore[attr-defined]

    def arrive(self) -> None:
        """Count a message that is about to be handled, and let happen what was planned for it."""
        self.messages += 1
        if self.messages in self.at_message:
            self.at_message.pop(self.messages)()

    def delay_s(self) -> float:
        slow = self.world.random.random() < 0.1
        return self.world.random.random() * (self.slowest_s if slow else 0.002)

    def is_cut(self, one: Process, other: Process) -> bool:
        return one.host != other.host and bool(self.cut & {one.host, other.host})

    def loses(self, one: Process, other: Process) -> bool:
        if one.host == other.host or self.is_cut(one, other):
            return one.host != other.host
        # Each lost call costs its caller five seconds, and a member counts as lost after thirty.
        # The first one arrives: a chief that never answers cannot be told from one that cannot be
        # reached.
        is_lost = self.world.random.random() < self.loss and self._lost.get(one, 2) < 2
        self._lost[one] = self._lost.get(one, 0) + 1 if is_lost else 0
        return is_lost


def network() -> Network:
    found: Network = here().network  # type: ignore[attr-defined]
    return found


class Aborted(Exception):
    """Ends a handler that has aborted its call."""


class Call:
    """One call: its messages in both directions, its end, and the context of its handler."""

    def __init__(self, caller: Process, server: Process) -> None:
        self.caller, self.server = caller, server
        self.requests: list[bytes] = []
        self.answers: list[bytes] = []
        self.has_all_requests = False
        self.error: Optional[SimulatedError] = None
        self.is_over = False
        self._waiting: list[Any] = []

    def is_active(self) -> bool:
        return not (self.is_over or self.caller.is_dead)

    def abort(self, code: grpc.StatusCode, details: str) -> None:
        self.end(SimulatedError(code, details))
        raise Aborted

    def cancel(self) -> None:
        self.end(SimulatedError(grpc.StatusCode.CANCELLED, "the caller cancelled the call"))

    def end(self, error: Optional[SimulatedError] = None) -> None:
        if not self.is_over:
            self.is_over, self.error = True, error
        self.notify()

    def notify(self) -> None:
        waiting, self._waiting = self._waiting, []
        for task in waiting:
            task.wake()

    def wait(self, condition: Callable[[], object], timeout: Optional[float] = None) -> bool:
        world = here()
        end = None if timeout is None else world.now + timeout
        while not condition():
            if end is not None and world.now >= end:
                return False
            self._waiting.append(world.running)
            world.park(None if end is None else end - world.now)
        return True


class Server:
    """`grpc.Server`, with the handlers that it is given."""

    def __init__(self, token: str, reason: str) -> None:
        self._token, self._reason = token, reason
        world = here()
        self.process: Process = world.running.process
        self.process.on_death.append(
            lambda: self._end_calls(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        )
        self.calls: list[Call] = []
        self.is_stopped = True
        self._handlers: list[grpc.GenericRpcHandler] = []

    def add_generic_rpc_handlers(self, handlers: tuple[grpc.GenericRpcHandler, ...]) -> None:
        self._handlers.extend(handlers)

    def add_insecure_port(self, address: str) -> int:
        self._address = address
        network().servers.setdefault(address, []).append(self)
        return 1

    def start(self) -> None:
        self.is_stopped = False

    def stop(self, grace: Optional[float]) -> Server:
        self.is_stopped = True
        found = network().servers.get(self._address, [])
        if self in found:
            found.remove(self)
        self._grace_s = grace or 0.0
        return self

    def wait(self) -> None:
        """Wait for calls under way, as long as the grace lasts, and end the others."""
        end = here().now + self._grace_s
        while here().now < end and any(not call.is_over for call in self.calls):
            here().sleep(0.05)
        self._end_calls(grpc.StatusCode.CANCELLED, "the server stopped")

    def _end_calls(self, code: grpc.StatusCode, details: str) -> None:
        for call in self.calls:
            call.end(SimulatedError(code, details))

    def handler(self, path: str, metadata: Any, call: Call) -> Any:
        if not hmac.compare_digest(dict(metadata).get(TOKEN, ""), self._token):
            call.abort(grpc.StatusCode.UNAUTHENTICATED, self._reason)
        details = _Details(path, metadata)
        return next(
            found
            for found in (each.service(details) for each in self._handlers)
            if found is not None
        )


class _Details:
    def __init__(self, method: str, metadata: Any) -> None:
        self.method, self.invocation_metadata = method, metadata


class Channel:
    """`grpc.Channel`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._process: Process = here().running.process
        self._process.on_death.append(lambda: [call.notify() for call in self._calls])
        self._calls: list[Call] = []
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        for call in self._calls:
            call.cancel()

    def unary_unary(self, path: str, serialize: Any, deserialize: Any) -> Callable[..., Any]:
        def run(
            request: Any,
            metadata: Any = (),
            timeout: Optional[float] = None,
            wait_for_ready: bool = False,
        ) -> Any:
            call, server = self._begin(timeout)
            net, message = network(), serialize(request)
            times = 1 + (
                self._process.host != server.process.host and here().random.random() < net.repeats
            )
            is_lost = net.loses(call.caller, call.server)
            if not is_lost or (
                here().random.random() < 0.5 and not net.is_cut(call.caller, call.server)
            ):
                for _ in range(times):
                    self._send(call, server, path, message, metadata, is_answered=not is_lost)
            if not call.wait(lambda: call.is_over, timeout):
                call.end(SimulatedError(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"))
            return deserialize(self._answer(call, server))

        return run

    def unary_stream(self, path: str, serialize: Any, deserialize: Any) -> Callable[..., Any]:
        def run(request: Any, metadata: Any = ()) -> Iterator[Any]:
            call, server = self._begin(None)
            message = serialize(request)

            def serve() -> None:
                for answer in self._behaviour(call, server, path, metadata)(message, call):
                    call.answers.append(answer)
                    call.notify()
                    call.wait(lambda: len(call.answers) < WINDOW or not call.is_active())
                    if not call.is_active():
                        return
                call.end()

            self._handle(call, server, serve)
            while True:
                call.wait(lambda: call.answers or call.is_over)
                here().sleep(network().delay_s())
                if call.answers and (call.error is None or here().random.random() < 0.5):
                    network().arrive()
                    answer = call.answers.pop(0)
                    call.notify()
                    yield deserialize(answer)
                elif call.error is not None:
                    raise call.error
                else:
                    return

        return run

    def stream_unary(self, path: str, serialize: Any, deserialize: Any) -> Callable[..., Any]:
        def run(messages: Iterator[Any], metadata: Any = ()) -> Any:
            call, server = self._begin(None)

            def send() -> None:
                for message in messages:
                    call.wait(lambda: len(call.requests) < WINDOW or call.is_over)
                    if call.is_over:
                        return
                    call.requests.append(serialize(message))
                    call.notify()
                call.has_all_requests = True
                call.notify()

            def received() -> Iterator[bytes]:
                while True:
                    call.wait(
                        lambda: call.requests or call.has_all_requests or not call.is_active()
                    )
                    here().sleep(network().delay_s())
                    # What a process has sent before it died may arrive, or not.
                    if call.requests and (call.is_active() or here().random.random() < 0.7):
                        network().arrive()
                        yield call.requests.pop(0)
                        call.notify()
                    elif not call.is_active():
                        raise SimulatedError(grpc.StatusCode.CANCELLED, "the caller has ended")
                    elif call.has_all_requests and not call.requests:
                        return

            here().spawn(send, self._process, "sends messages")

            def serve() -> None:
                call.answers.append(self._behaviour(call, server, path, metadata)(received(), call))
                call.end()

            self._handle(call, server, serve)
            call.wait(lambda: call.is_over)
            return deserialize(self._answer(call, server))

        return run

    def _answer(self, call: Call, server: Server) -> bytes:
        self._calls.remove(call)
        server.calls.remove(call)
        if call.error is not None:
            raise call.error
        return call.answers[0]

    def _begin(self, timeout: Optional[float]) -> tuple[Call, Server]:
        """Find the server, as long as the deadline allows."""
        world, net = here(), network()
        if self._is_closed:
            raise ValueError("Cannot invoke RPC on closed channel!")
        servers = [
            each
            for each in net.servers.get(self._address, ())
            if not each.process.is_dead and not each.is_stopped
        ]
        if not servers:
            world.sleep(net.delay_s())
            raise SimulatedError(
                grpc.StatusCode.UNAVAILABLE, f"failed to connect to {self._address}"
            )
        server = world.random.choice(servers)
        call = Call(self._process, server.process)
        server.calls.append(call)
        self._calls.append(call)
        return call, server

    def _send(
        self,
        call: Call,
        server: Server,
        path: str,
        message: bytes,
        metadata: Any,
        is_answered: bool,
    ) -> None:
        """Let a call arrive, and its answer return or not."""
        world, net = here(), network()

        def serve() -> None:
            net.arrive()
            answer = self._behaviour(call, server, path, metadata)(message, call)
            net.arrive()
            if not is_answered or net.is_cut(call.caller, call.server):
                return

            def arrive() -> None:
                if not call.is_over:
                    call.answers.append(answer)
                    call.end()

            world.after(net.delay_s(), arrive)

        world.after(net.delay_s(), lambda: self._handle(call, server, serve))

    def _handle(self, call: Call, server: Server, serve: Callable[[], None]) -> None:
        def run() -> None:
            try:
                serve()
            except Aborted:
                pass
            except (Over, AssertionError):
                raise
            except Exception as error:  # as gRPC does
                call.end(
                    SimulatedError(
                        grpc.StatusCode.UNKNOWN, f"Exception calling application: {error}"
                    )
                )

        if server.is_stopped:
            call.end(SimulatedError(grpc.StatusCode.UNAVAILABLE, "the server stopped"))
        else:
            here().spawn(run, server.process, "serves a call")

    def _behaviour(
        self, call: Call, server: Server, path: str, metadata: Any
    ) -> Callable[[Any, Call], Any]:
        """Return the handler of a call, which takes and returns bytes."""
        handler = server.handler(path, metadata, call)

        def as_bytes(message: Any) -> bytes:
            made: bytes = (
                message
                if handler.response_serializer is None
                else handler.response_serializer(message)
            )
            return made

        def behave(request: Any, context: Call) -> Any:
            read = handler.request_deserializer or (lambda data: data)
            given = map(read, request) if handler.request_streaming else read(request)
            behaviour = (
                handler.stream_unary if handler.request_streaming
                else handler.unary_stream if handler.response_streaming
                else handler.unary_unary
            )  # fmt: skip
            result = behaviour(given, context)
            return map(as_bytes, result) if handler.response_streaming else as_bytes(result)

        return behave
