"""Member 0's server, to which all members report.

The bridge workers of a group have no other connection to each other. Calls carry a token and the
number of the attempt, so that a member which is left over from a failed attempt is refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
from apache_beam.utils import thread_pool_executor

from akdl.wire import ExtraInputsRequest, GroupState, MemberReport
from akdl.wire.service import GROUP_SERVICE
from akdl.wire.token import guarded_server
from bridge.group.addresses import with_port
from bridge.group.chunk_log import ChunkLog
from bridge.group.state_store import StateStore
from bridge.settings import Certificate

STOP_S = 1.0


class GroupServer:
    """Server for reports, and for extra inputs of other hosts.

    It shares no lock with the rows of member 0, which a hundred reports a second would hold up.

    Args:
        host: Address on which it listens, the one that was sent to all members.
        certificate: Key and certificate of the job, which both ends have to present; None for
            calls in plain text.
        states: Store of an earlier server of this attempt, whose script has been started again.
    """

    def __init__(
        self,
        host: str,
        port: int,
        token: str,
        attempt: int,
        size: int,
        certificate: Certificate | None = None,
        chunk_log: ChunkLog | None = None,
        states: StateStore | None = None,
    ) -> None:
        self._attempt = attempt
        self._size = size
        self._chunk_log = chunk_log
        self._lock = threading.Lock()
        self._states = states or StateStore()
        calls = thread_pool_executor.shared_unbounded_instance()  # type: ignore[no-untyped-call]  # see bridge.member.bridge_server
        # The port is shared (SO_REUSEPORT), because its reservation is still open.
        self._server = guarded_server(
            calls, token, "the call does not carry the token of this group", shares_port=True
        )
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Report": grpc.unary_unary_rpc_method_handler(
                self._report, MemberReport.FromString, GroupState.SerializeToString
            )
        }
        if chunk_log is not None:
            # The chunks are in the log as serialized messages, so the answer has no serializer.
            handlers["TakeExtraInputs"] = grpc.unary_stream_rpc_method_handler(
                self._send_extra_inputs, ExtraInputsRequest.FromString
            )
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(GROUP_SERVICE, handlers),)
        )
        if certificate is None:
            self._server.add_insecure_port(with_port(host, port))
        else:
            pair, own = (certificate.key, certificate.certificate), certificate.certificate
            # The certificate is self-signed, so it is the root too, for both ends.
            credentials = grpc.ssl_server_credentials(
                [pair], root_certificates=own, require_client_auth=True
            )
            self._server.add_secure_port(with_port(host, port), credentials)
        self._server.start()

    def stop(self) -> None:
        # Answers on their way get a second: a member whose last report has no answer waits for
        # LOST_S.
        self._server.stop(grace=STOP_S).wait()

    def _report(self, report: MemberReport, context: grpc.ServicerContext) -> GroupState:
        state = report.state
        # The attempt is checked before the state is stored, so a member of a failed attempt changes
        # nothing.
        self._check_attempt(f"member {state.index}", state.attempt, context)
        if state.index >= self._size:
            context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"a group of {self._size} has no member {state.index}",
            )
        with self._lock:
            return self._states.answer(report, time.monotonic())

    def _send_extra_inputs(
        self, request: ExtraInputsRequest, context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        """Yield chunks at the speed of the reader: gRPC asks for the next one when it has room."""
        self._check_attempt("the member", request.attempt, context)
        assert self._chunk_log is not None
        yield from self._chunk_log.read(request.taken, context.is_active)

    def _check_attempt(self, member: str, attempt: int, context: grpc.ServicerContext) -> None:
        if attempt != self._attempt:
            reason = f"{member} belongs to attempt {attempt}, this is attempt {self._attempt}"
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
