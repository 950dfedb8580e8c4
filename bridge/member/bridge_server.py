"""The gRPC server of a session: it carries messages, and calls wait until there is an answer.

All rules of the exchange are in `session`. This module only takes the lock, asks the session, and
wakes the other threads after each change. The process is the client; it gets the address and a
token when it starts, and calls without this token are refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
from apache_beam.utils import thread_pool_executor

from akdl.wire import Cluster, Empty, Hello, Outcome, Output, Progress, Shares, Task, Wishes
from akdl.wire.service import SERVICE
from akdl.wire.token import guarded_server
from bridge.host.places import socket_address
from bridge.member.session import ProtocolError, Session

# A waiting call notices within this time that its process has ended, which wakes no thread here.
_LOOK_AGAIN_S = 0.5


class BridgeServer:
    """Server of one session, for the one process that has the token.

    Args:
        changed: Lock of the session, notified after each change.
        shares: Returns the files of all workers, or None until all are complete. Called with the
            lock held, as `wishes` is.
        wishes: Returns what the bridge asks of the process, as the answer to each report.
        task: Answer to `Connect`: the script and its settings.
        folder: Private folder for the unix socket.
    """

    def __init__(
        self,
        session: Session,
        changed: threading.Condition,
        shares: Callable[[], Shares | None],
        wishes: Callable[[], Wishes],
        task: Task,
        token: str,
        folder: str,
    ) -> None:
        self._session = session
        self._changed = changed
        self._shares = shares
        self._wishes = wishes
        self._task = task
        self._stopped = False
        # The calls run in Beam's pool, as calls of PyFlink's own servers do. A pool of the standard
        # library refuses calls while the program exits, which kills gRPC's thread, and a program
        # that leaves a job running would wait indefinitely.
        calls = thread_pool_executor.shared_unbounded_instance()  # type: ignore[no-untyped-call]
        self._server = guarded_server(
            calls, token, "the call does not carry the token of this process"
        )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, self._handlers()),)
        )
        self.address = self._listen(f"{folder}/bridge.sock")

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        """Abort the calls that wait, and return when the last one has ended."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        # gRPC cannot interrupt the thread of a call, so the calls that wait were woken first.
        self._server.stop(grace=None).wait()

    def _listen(self, socket_path: str) -> str:
        """Listen on a unix socket in a private folder, or on 127.0.0.1 if the path is too long."""
        address = socket_address(socket_path)
        if address is not None:
            self._server.add_insecure_port(address)
            return address
        return f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def _handlers(self) -> dict[str, Any]:
        def serialize(message: Any) -> bytes:
            # Chunks are serialized by the session, without a copy of their columns into a message.
            serialized: bytes = (
                message if isinstance(message, bytes) else message.SerializeToString()
            )
            return serialized

        kinds: dict[str, tuple[Any, Callable[[Any, Any], Any], Any]] = {
            "Connect": (grpc.unary_unary_rpc_method_handler, self._connect, Hello),
            "WaitForCluster": (grpc.unary_unary_rpc_method_handler, self._wait_for_cluster, Empty),
            "Read": (grpc.unary_stream_rpc_method_handler, self._read, Empty),
            "Write": (grpc.stream_unary_rpc_method_handler, self._write, Output),
            "Report": (grpc.unary_unary_rpc_method_handler, self._report, Progress),
            "WaitForShares": (grpc.unary_unary_rpc_method_handler, self._wait_for_shares, Empty),
            "Finish": (grpc.unary_unary_rpc_method_handler, self._finish, Outcome),
        }
        return {
            name: make(
                self._guarded(behaviour),
                request_deserializer=request.FromString,
                response_serializer=serialize,
            )
            for name, (make, behaviour, request) in kinds.items()
        }

    def _guarded(self, behaviour: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """Let a ProtocolError fail the call, so that the process gets its text."""

        def call(request: Any, context: grpc.ServicerContext) -> Any:
            try:
                return behaviour(request, context)
            except ProtocolError as error:
                context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))

        return call

    def _connect(self, hello: Hello, context: grpc.ServicerContext) -> Task:
        with self._changed:
            self._session.connect(hello)
            self._changed.notify_all()
        return self._task

    def _wait_for_cluster(self, request: Empty, context: grpc.ServicerContext) -> Cluster:
        with self._changed:
            self._wait(context, lambda: self._session.cluster is not None)
            return self._session.cluster or Cluster()

    def _read(self, request: Empty, context: grpc.ServicerContext) -> Iterator[bytes]:
        while not self._session.has_sent_end:
            with self._changed:
                self._wait(
                    context, lambda: self._session.has_chunk or self._session.outcome is not None
                )
                chunk = self._session.next_chunk()
                self._changed.notify_all()
            # The session has no chunk once the script has ended, although its input may go on.
            if chunk is None:
                return
            # The lock is not held here: gRPC continues this generator once it can send more.
            yield chunk

    def _write(self, messages: Iterator[Output], context: grpc.ServicerContext) -> Empty:
        # While this waits, gRPC's flow control holds up the script that writes.
        for output in messages:
            with self._changed:
                self._wait(context, lambda: self._session.has_output_room)
                self._session.add_rows(output)
                self._changed.notify_all()
        return Empty()

    def _report(self, progress: Progress, context: grpc.ServicerContext) -> Wishes:
        with self._changed:
            self._session.report(progress)
            self._changed.notify_all()
            # The answer carries the wishes, because only the process can begin a call.
            return self._wishes()

    def _wait_for_shares(self, request: Empty, context: grpc.ServicerContext) -> Shares:
        with self._changed:
            # This travels to the other members, whose processes then write their files.
            self._session.wants_shares = True
            self._wait(context, lambda: self._shares() is not None)
            return self._shares() or Shares()

    def _finish(self, outcome: Outcome, context: grpc.ServicerContext) -> Empty:
        with self._changed:
            self._session.finish(outcome)
            self._changed.notify_all()
        return Empty()

    def _wait(self, context: grpc.ServicerContext, ready: Callable[[], bool]) -> None:
        """Wait with the lock held until `ready`; abort the call when the server stops or the caller
        has ended.
        """
        while not ready():
            if self._stopped or not context.is_active():
                context.abort(grpc.StatusCode.CANCELLED, "the Flink task is ending")
            self._changed.wait(_LOOK_AGAIN_S)
