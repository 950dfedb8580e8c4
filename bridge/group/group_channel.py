"""The line between the members of a group: each member reports its state to member 0 and learns what has changed.

States are a hundred bytes. The one row that a share without any needs to be evened out travels in pieces, since it may be
larger than a message of gRPC, and only where it is needed. The chunks of extra inputs go to one member of each host that asks
for them. Every call must bring the group's token, and a report the number of the attempt. So a member of an earlier attempt,
which has failed, is refused.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import grpc
from apache_beam.utils import thread_pool_executor

from akdl.wire import Chunk, Empty, ExtraInputsRequest, GroupState, MemberReport, MemberState, SamplePiece
from akdl.wire.service import GROUP_SERVICE
from akdl.wire.token import TOKEN, RefusesStrangers
from bridge.group.addresses import with_port
from bridge.group.chunk_log import Spool
from bridge.group.state_store import REPORT_S, Board, ask_all_s, essence, report_s
from bridge.settings import TLS_NAME, Certificate

logger = logging.getLogger(__name__)

_ANSWER_S = 5.0
_LAST_ANSWER_S = 1.0
_SAMPLE_S = 60.0
_PIECE_BYTES = 1 << 20


class OwnWord(NamedTuple):
    """What a member has to say: its state, and how it depends on others.

    Args:
        stands_still: It needs to know of the progress of all others.
    """

    state: MemberState
    is_urgent: bool = False
    stands_still: bool = False


class GroupServer:
    """Member 0's end. It shares no lock with the rows of member 0.

    Args:
        spool: The chunks of the extra inputs, if other hosts need them.
    """

    def __init__(
        self,
        host: str,
        port: int,
        token: str,
        attempt: int,
        size: int,
        certificate: Certificate | None = None,
        spool: Spool | None = None,
    ) -> None:
        self._attempt = attempt
        self._size = size
        self._spool = spool
        self._lock = threading.Lock()
        self._board = Board()
        self._sample = b""
        # With SO_REUSEPORT, because our own reservation of the port is still open.
        calls = thread_pool_executor.shared_unbounded_instance()  # type: ignore[no-untyped-call]  # see bridge.member.bridge_server
        refusal = RefusesStrangers(token, "this process has no token of this group")
        self._server = grpc.server(calls, interceptors=[refusal], options=[("grpc.so_reuseport", 1)])
        handlers = {
            "Report": grpc.unary_unary_rpc_method_handler(
                self._report, request_deserializer=MemberReport.FromString, response_serializer=GroupState.SerializeToString
            ),
            "GiveSample": grpc.stream_unary_rpc_method_handler(
                self._take_sample, request_deserializer=SamplePiece.FromString, response_serializer=Empty.SerializeToString
            ),
            "TakeSample": grpc.unary_stream_rpc_method_handler(
                self._give_sample, request_deserializer=Empty.FromString, response_serializer=SamplePiece.SerializeToString
            ),
        }
        if spool is not None:
            handlers["TakeExtraInputs"] = grpc.unary_stream_rpc_method_handler(
                self._give_extra_inputs, request_deserializer=ExtraInputsRequest.FromString
            )
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(GROUP_SERVICE, handlers),))
        if certificate is None:
            self._server.add_insecure_port(with_port(host, port))
        else:
            pair, own = (certificate.key, certificate.certificate), certificate.certificate
            credentials = grpc.ssl_server_credentials([pair], root_certificates=own, require_client_auth=True)
            self._server.add_secure_port(with_port(host, port), credentials)
        self._server.start()

    def stop(self) -> None:
        """Answer what is being asked, and stop."""
        self._server.stop(grace=_LAST_ANSWER_S).wait()

    def _report(self, report: MemberReport, context: Any) -> GroupState:
        state = report.state
        self._check_attempt(f"member {state.index}", state.attempt, context)
        if state.index >= self._size:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"there is no member {state.index} in a group of {self._size}")
        with self._lock:
            return self._board.answer(report, time.monotonic())

    def _check_attempt(self, who: str, attempt: int, context: Any) -> None:
        if attempt != self._attempt:
            reason = f"{who} belongs to attempt {attempt}, this is {self._attempt}"
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, reason)

    def _give_extra_inputs(self, request: ExtraInputsRequest, context: Any) -> Iterator[bytes]:
        self._check_attempt("the member", request.attempt, context)
        assert self._spool is not None
        yield from self._spool.read(request.taken, context.is_active)

    def _take_sample(self, pieces: Iterator[SamplePiece], context: Any) -> Empty:
        sample = b"".join(piece.content for piece in pieces)
        with self._lock:
            self._sample = sample
        return Empty()

    def _give_sample(self, request: Empty, context: Any) -> Iterator[SamplePiece]:
        with self._lock:
            sample = self._sample
        yield from _pieces(sample)


class GroupLink:
    """A member's end: reports from a thread of its own: at once what is new in essence, else as often as the size allows.

    Args:
        on_answer: Called with the answer, and with the word that it answers.

    Attributes:
        sample: A row of another member as an Arrow stream, after `ask_for_sample`; None before.
        is_sample_given: Member 0 has got the row of `give_sample`.
    """

    def __init__(
        self,
        address: str,
        token: str,
        size: int,
        word: Callable[[], OwnWord],
        on_answer: Callable[[GroupState, OwnWord], None],
        certificate: Certificate | None = None,
    ) -> None:
        self.address = address
        self.sample: bytes | None = None
        self.is_sample_given = False
        self._size = size
        self._word = word
        self._on_answer = on_answer
        self._metadata = [(TOKEN, token)]
        options: list[tuple[str, Any]] = [("grpc.enable_http_proxy", 0), ("grpc.max_reconnect_backoff_ms", 1000)]
        options.append(("grpc.max_receive_message_length", -1))  # there may be thousands of states
        if certificate is None:
            self._channel = grpc.insecure_channel(address, options=options)
        else:
            own = certificate.certificate
            options.append(("grpc.ssl_target_name_override", TLS_NAME))
            self._channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(own, certificate.key, own), options)
        self._call = self._channel.unary_unary(
            f"/{GROUP_SERVICE}/Report",
            request_serializer=MemberReport.SerializeToString,
            response_deserializer=GroupState.FromString,
        )
        self._give = self._channel.stream_unary(
            f"/{GROUP_SERVICE}/GiveSample",
            request_serializer=SamplePiece.SerializeToString,
            response_deserializer=Empty.FromString,
        )
        self._take = self._channel.unary_stream(
            f"/{GROUP_SERVICE}/TakeSample",
            request_serializer=Empty.SerializeToString,
            response_deserializer=SamplePiece.FromString,
        )
        self._take_extra = self._channel.unary_stream(
            f"/{GROUP_SERVICE}/TakeExtraInputs",
            request_serializer=ExtraInputsRequest.SerializeToString,
            response_deserializer=Chunk.FromString,
        )
        self._version = 0
        self._reporting = threading.Lock()
        self._told: tuple[object, ...] = ()  # the essence of the last answered report
        self._reported = self._asked_all = float("-inf")
        self._own_sample: bytes | None = None
        self._wants_sample = False
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

    def ask_all(self) -> None:
        """Ask for the last state of all members, and return when it is here, or when there is no answer."""
        self._report(self._word(), _LAST_ANSWER_S, wants_all=True)

    def give_sample(self, sample: bytes) -> None:
        """Send a row to member 0, soon."""
        self._own_sample = sample

    def ask_for_sample(self) -> None:
        """Ask member 0 for a row until it has one."""
        self._wants_sample = True

    def take_extra_inputs(self, attempt: int, taken: int) -> Any:
        """Return a gRPC call that yields chunks of the extra inputs as they come to member 0, and at last the end mark.

        Args:
            taken: How many chunks, from the first on, are not needed again.
        """
        return self._take_extra(ExtraInputsRequest(attempt=attempt, taken=taken), metadata=self._metadata)

    def stop(self) -> None:
        """Report once more and hang up. Safe to call twice."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._thread.join(_LAST_ANSWER_S)
        if not self._thread.is_alive():
            self._report(self._word(), _LAST_ANSWER_S)
        self._channel.close()  # which ends calls that nobody answers
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(REPORT_S):
            word, now = self._word(), time.monotonic()
            wants_all = word.stands_still and now >= self._asked_all + ask_all_s(self._size)
            is_due = now >= self._reported + report_s(self._size, word.is_urgent)
            if is_due or wants_all or essence(word.state) != self._told:
                self._report(word, _ANSWER_S, wants_all)
            try:
                if not self._stopped.is_set():
                    self._carry_sample()
            except grpc.RpcError as error:
                self._last_error = _reason(error)

    def _report(self, word: OwnWord, timeout_s: float, wants_all: bool = False) -> None:
        if not self._reporting.acquire(timeout=timeout_s):  # so that versions come in their order
            return  # nobody answers the report before
        try:
            self._reported = time.monotonic()
            if wants_all:
                self._asked_all = self._reported
            report = MemberReport(state=word.state, version=self._version, wants_all=wants_all)
            try:
                answer = self._call(report, metadata=self._metadata, timeout=timeout_s)
            except grpc.RpcError as error:
                self._last_error = _reason(error)
                return
            self._answered = time.monotonic()
            self._version = answer.version
            self._told = essence(word.state)
            self._on_answer(answer, word)
        finally:
            self._reporting.release()

    def _carry_sample(self) -> None:
        if self._own_sample is not None and not self.is_sample_given:
            self._give(_pieces(self._own_sample), metadata=self._metadata, timeout=_SAMPLE_S)
            self.is_sample_given = True
        if self._wants_sample and self.sample is None:
            pieces = self._take(Empty(), metadata=self._metadata, timeout=_SAMPLE_S)
            self.sample = b"".join(piece.content for piece in pieces) or None


def _pieces(sample: bytes) -> Iterator[SamplePiece]:
    for start in range(0, len(sample), _PIECE_BYTES):
        yield SamplePiece(content=sample[start : start + _PIECE_BYTES])


def _reason(error: Any) -> str:
    return f"{error.code().name}: {error.details()}"
