"""The line between the members of a group: each member often reports its state to member 0 and gets all states in return.

Only states travel here, a few hundred bytes at a time. Every call must bring the group's token and the number of the
attempt. So a member of an earlier attempt, which has failed, is refused.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import grpc
from apache_beam.utils import thread_pool_executor

from akdl.wire import GroupState, MemberState
from akdl.wire.service import GROUP_SERVICE
from akdl.wire.token import TOKEN, refuse_strangers

logger = logging.getLogger(__name__)

REPORT_S = 0.25
_ANSWER_S = 5.0
_LAST_ANSWER_S = 1.0


class GroupServer:
    """Member 0's end: keeps the last state of every member.

    Args:
        host: Address of this host to listen on.
        port: Port, which may be reserved with SO_REUSEPORT.
        token: The group's secret.
        attempt: Number of the Flink attempt.
    """

    def __init__(self, host: str, port: int, token: str, attempt: int) -> None:
        self._token = token
        self._attempt = attempt
        self._lock = threading.Lock()
        self._states: dict[int, MemberState] = {}
        self._reported: dict[int, float] = {}  # when each did so last, monotonic seconds
        # With SO_REUSEPORT, because our own reservation of the port is still open.
        calls = thread_pool_executor.shared_unbounded_instance()  # type: ignore[no-untyped-call]  # see bridge.member.server
        self._server = grpc.server(calls, options=[("grpc.so_reuseport", 1)])
        handler = grpc.unary_unary_rpc_method_handler(
            self._report, request_deserializer=MemberState.FromString, response_serializer=GroupState.SerializeToString
        )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(GROUP_SERVICE, {"Report": handler}),))
        self._server.add_insecure_port(f"{host}:{port}")
        self._server.start()

    def stop(self) -> None:
        """Answer what is being asked, and stop."""
        self._server.stop(grace=_LAST_ANSWER_S).wait()

    def _report(self, state: MemberState, context: Any) -> GroupState:
        refuse_strangers(context, self._token, "this process has no token of this group")
        if state.attempt != self._attempt:
            reason = f"member {state.index} belongs to attempt {state.attempt}, this is {self._attempt}"
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)
        with self._lock:
            now = time.monotonic()
            self._states[state.index], self._reported[state.index] = state, now
            for index, known in self._states.items():
                known.silent_s = now - self._reported[index]
            return GroupState(members=[state for _, state in sorted(self._states.items())])


class GroupLink:
    """A member's end: reports four times a second, from a thread of its own.

    Args:
        address: "host:port" of member 0's server.
        token: The group's secret.
        state: Returns this member's state.
        on_answer: Called with the answer, and with the state that it answers.
    """

    def __init__(
        self,
        address: str,
        token: str,
        state: Callable[[], MemberState],
        on_answer: Callable[[GroupState, MemberState], None],
    ) -> None:
        self.address = address
        self._state = state
        self._on_answer = on_answer
        self._metadata = [(TOKEN, token)]
        options = [("grpc.enable_http_proxy", 0), ("grpc.max_reconnect_backoff_ms", 1000)]
        self._channel = grpc.insecure_channel(address, options=options)
        self._call = self._channel.unary_unary(
            f"/{GROUP_SERVICE}/Report",
            request_serializer=MemberState.SerializeToString,
            response_deserializer=GroupState.FromString,
        )
        self._stopped = threading.Event()
        self._answered = time.monotonic()
        self._last_error = "no answer yet"
        self._thread = threading.Thread(target=self._run, name="akdl-group", daemon=True)
        self._thread.start()

    @property
    def unanswered_s(self) -> float:
        """For how many seconds member 0 has not answered."""
        return time.monotonic() - self._answered

    @property
    def last_error(self) -> str:
        """Why it did not, as gRPC says it."""
        return self._last_error

    def stop(self) -> None:
        """Report once more and hang up. Safe to call twice."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._thread.join()
        self._report(_LAST_ANSWER_S)
        self._channel.close()

    def _run(self) -> None:
        while not self._stopped.wait(REPORT_S):
            self._report(_ANSWER_S)

    def _report(self, timeout_s: float) -> None:
        state = self._state()
        try:
            answer = self._call(state, metadata=self._metadata, timeout=timeout_s)
        except grpc.RpcError as error:
            self._last_error = f"{error.code().name}: {error.details()}"
            return
        self._answered = time.monotonic()
        self._on_answer(answer, state)
