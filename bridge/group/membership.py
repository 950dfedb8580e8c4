"""A member's view of its group, and the reports that it sends to member 0.

A thread reports the member's state and stores the states of the answer. A change that other members
wait for is reported at once, everything else at an interval that grows with the group, so that
member 0 gets about a hundred reports a second from a group of any size.

All members report to the server of member 0. The bridge workers of a group have no other
connection to each other. Calls carry a token and the number of the attempt, so that a member which
is left over from a failed attempt is refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc
from apache_beam.utils import thread_pool_executor

from akdl.wire import ENDED, Chunk, ExtraInputsRequest, GroupState, MemberReport, MemberState
from akdl.wire.service import GROUP_SERVICE
from akdl.wire.token import TOKEN, guarded_server
from bridge.group.addresses import Address, with_port
from bridge.group.chunk_log import ChunkLog
from bridge.group.state_store import (
    LOST_S,
    REPORT_S,
    StateStore,
    ask_all_s,
    essence,
    report_s,
    stands_still,
)
from bridge.group.states import KnownStates
from bridge.settings import TLS_NAME, Certificate, GroupSettings

_ANSWER_S = 5.0
_LAST_ANSWER_S = 1.0
# Seconds for a report with a sample row, which may be large. They are fewer than LOST_S, because a
# member sends no other report meanwhile and would count as lost.
_SAMPLE_S = 12.0


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
            pair = (certificate.key, certificate.certificate)
            own = certificate.certificate
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


class Membership:
    """The last known states of all members, and the channel to member 0. A group of one has no
    channel.

    Args:
        changed: Lock of the member, under which the known states are read and written. No call is
            made with it.
        own_state: Returns the member's current state; called with the lock held.
        before: Membership of the script that ran before in the same attempt. Its states are taken
            over, because members that have left do not report again.
    """

    def __init__(
        self,
        settings: GroupSettings,
        index: int,
        attempt: int,
        changed: threading.Condition,
        own_state: Callable[[], MemberState],
        before: Membership | None = None,
    ) -> None:
        self._settings = settings
        self._index = index
        self._attempt = attempt
        self._metadata = ((TOKEN, settings.token),)
        self._changed = changed
        self._own_state = own_state
        self._states: StateStore = StateStore() if before is None else before._states
        self._known: KnownStates = KnownStates(settings) if before is None else before._known
        self._has_progress_of_all = before is not None
        # Address of member 0's server, once it is known.
        self.hub = ""
        # gRPC's reason why the last report was not answered, for the error of a lost chief.
        self.last_error = ""
        # True once member 0 has received the end of this member.
        self.is_end_known = False
        # True while this member waits for others. It reports more often then.
        self.is_waiting = False
        self.sample = self._sample_to_send = b""
        self._needs_sample = False
        self._server: GroupServer | None = None
        self._channel: grpc.Channel | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._reporting = threading.Lock()
        self._version: int = 0 if before is None else before._version
        # Essence of the last report that was answered. Another one is news.
        self._known_essence: tuple[object, ...] = ()
        # The first report and the first request for all states are due at once.
        self._reported = self._asked_all = float("-inf")
        self._answered = 0.0

    def join(self, addresses: Sequence[Address], chunk_log: ChunkLog | None = None) -> None:
        """Begin to report, and in member 0 to answer, once all addresses are known."""
        with self._changed:
            self._known.hosts = [address.host for address in addresses]
        if len(addresses) == 1:
            return
        if self._index == 0:
            self._server = GroupServer(
                addresses[0].host,
                addresses[0].group_port,
                self._settings.token,
                self._attempt,
                len(addresses),
                self._settings.certificate,
                chunk_log,
                self._states,
            )
        self.report_to(addresses[0].group)

    def report_to(self, hub: str) -> None:
        self.hub = hub
        self.last_error = "no answer yet"
        self._answered = time.monotonic()
        self._channel = _open_channel(hub, self._settings.certificate)
        self._call = self._channel.unary_unary(
            f"/{GROUP_SERVICE}/Report", MemberReport.SerializeToString, GroupState.FromString
        )
        self._thread = threading.Thread(target=self._run, name="akdl-group", daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Report the last state, close the channel, and end the thread; in member 0 the server too.

        Without this report the others would wait for an end or a failure that has happened. If
        member 0 does not answer, this gives up after two seconds.
        """
        if self._channel is not None and self._thread is not None and not self._stopped.is_set():
            # The thread ends before the last report, so that no earlier state follows it.
            self._stopped.set()
            self._thread.join(_LAST_ANSWER_S)
            if not self._thread.is_alive():
                self._report(self._state(), _LAST_ANSWER_S)
            # This ends a call without an answer, for which the thread still waits.
            self._channel.close()
            self._thread.join()
        if self._server is not None:
            self._server.stop()

    def group(self) -> KnownStates:
        """Return the known states with the member's own current one. With the lock held."""
        self._known.update([self._own_state()])
        return self._known

    @property
    def is_over(self) -> bool:
        """Member 0 may leave when all members have ended and it has answered them, another member
        when member 0 knows its end.

        With the lock held. A member 0 that does not answer any more has left, and its last answer
        was lost. If not, it misses this member.
        """
        if self._index == 0:
            members = range(self._settings.size)
            now = time.monotonic()
            return self.group().have_ended(members) and not any(
                self._states.waits_for_answer(index, now) for index in members[1:]
            )
        return self.is_end_known or (self._version > 0 and self.unanswered_s > LOST_S)

    @property
    def unanswered_s(self) -> float:
        """Seconds since the last answer of member 0, or since this member began to report."""
        return time.monotonic() - self._answered if self._answered else 0.0

    def ask_all(self) -> None:
        """Request the last state of all members, with their progress, and wait for the answer.
        Without the lock.
        """
        if self._channel is not None:
            self._report(self._state(), _LAST_ANSWER_S, wants_all=True)

    def exchange_sample(self, giver: int | None, own: bytes) -> None:
        """Send a row to members without rows if this member is the `giver`, or request one; then
        `has_sample` turns true.
        """
        self._sample_to_send = own if giver == self._index else b""
        self._needs_sample = giver is not None and not own

    @property
    def has_sample(self) -> bool:
        return not self._sample_to_send and (bool(self.sample) or not self._needs_sample)

    def take_extra_inputs(self, taken: int) -> Any:
        """Return a gRPC call that yields the chunks of the extra inputs after the first `taken`,
        and at last the end mark.
        """
        assert self._channel is not None
        call = self._channel.unary_stream(
            f"/{GROUP_SERVICE}/TakeExtraInputs",
            ExtraInputsRequest.SerializeToString,
            Chunk.FromString,
        )
        return call(ExtraInputsRequest(attempt=self._attempt, taken=taken), metadata=self._metadata)

    def _state(self) -> MemberState:
        with self._changed:
            return self._own_state()

    def _run(self) -> None:
        size = self._settings.size
        while not self._stopped.wait(REPORT_S):
            with self._changed:
                state = self._own_state()
                is_urgent = self.is_waiting or not self._known.is_formed
            now = time.monotonic()
            wants_all = stands_still(state, self._settings) and now >= self._asked_all + ask_all_s(
                size
            )
            is_due = now >= self._reported + report_s(size, is_urgent)
            # `_known_essence` changes with an answer only, so news is sent again until a report
            # with it has been answered.
            if is_due or wants_all or self._sample_to_send or essence(state) != self._known_essence:
                self._report(state, _ANSWER_S, wants_all)

    def _report(self, state: MemberState, timeout_s: float, wants_all: bool = False) -> None:
        # One report at a time keeps the versions in order: `ask_all` and `leave` run in other
        # threads than the regular reports.
        if not self._reporting.acquire(timeout=timeout_s):
            return
        try:
            self._reported = time.monotonic()
            if wants_all:
                self._asked_all = self._reported
            report = MemberReport(
                state=state,
                version=self._version,
                wants_all=wants_all,
                sample=self._sample_to_send,
                wants_sample=self._needs_sample and not self.sample,
            )
            has_sample = report.sample or report.wants_sample
            try:
                answer = self._call(
                    report, metadata=self._metadata, timeout=_SAMPLE_S if has_sample else timeout_s
                )
            # A lost report is not repeated, since the next one has the latest state anyway. What
            # follows from a lasting loss is up to `bridge.group.diagnosis`.
            except grpc.RpcError as error:
                self.last_error = f"{error.code().name}: {error.details()}"
                return
            self._answered = time.monotonic()
            self._version = answer.version
            self._known_essence = essence(state)
            self._take_answer(answer, report)
        finally:
            self._reporting.release()

    def _take_answer(self, answer: GroupState, report: MemberReport) -> None:
        """Store the states of an answer, and wake the Flink function if it may wait for them."""
        state = report.state
        with self._changed:
            if answer.is_all:
                self._known.update(answer.members)
                self._has_progress_of_all = True
            else:
                self._known.update_essence(answer.members)
                if self._has_progress_of_all and not stands_still(state, self._settings):
                    # Newer progress is not sent without a request, and older progress would look
                    # like a standstill.
                    self._known.forget_progress()
                    self._has_progress_of_all = False
            if report.sample:
                self._sample_to_send = b""
            self.sample = answer.sample or self.sample
            # The answer shows that member 0 has this state.
            is_end_known = state.phase == ENDED
            if (
                answer.members
                or answer.sample
                or report.sample
                or is_end_known != self.is_end_known
            ):
                self.is_end_known = is_end_known
                self._changed.notify_all()


def _open_channel(address: str, certificate: Certificate | None) -> grpc.Channel:
    options: list[tuple[str, Any]] = [
        # gRPC would send the calls to the proxy of the variable http_proxy.
        ("grpc.enable_http_proxy", 0),
        # By default gRPC waits up to two minutes between two tries, and a member counts as lost
        # earlier.
        ("grpc.max_reconnect_backoff_ms", 1000),
        # An answer may have thousands of states, or a large sample row.
        ("grpc.max_receive_message_length", -1),
    ]
    if certificate is None:
        return grpc.insecure_channel(address, options=options)
    own = certificate.certificate
    # The host names of a cluster are not known when the certificate is made, so it has this name.
    options.append(("grpc.ssl_target_name_override", TLS_NAME))
    return grpc.secure_channel(
        address, grpc.ssl_channel_credentials(own, certificate.key, own), options
    )
