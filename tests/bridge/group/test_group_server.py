"""The channel between members, over real gRPC on loopback."""

from __future__ import annotations

import pathlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import grpc
import pytest

from akdl.wire import ENDED, RUNNING, Chunk, GroupState, MemberReport, MemberState
from bridge.group.addresses import Address, release, reserve
from bridge.group.chunk_log import ChunkLog
from bridge.group.membership import GroupServer, Membership
from bridge.schema import Schema
from bridge.settings import Certificate, GroupSettings
from operators.prepare.certificate import new_certificate
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.strangers import strangers

TOKEN = "secret"
SCHEMA = Schema.parse("id BIGINT")


@pytest.fixture
def port() -> Iterator[int]:
    """The port of a group's server, reserved as Announce does it."""
    yield reserve("line", 0, 0)[1]
    release("line", 0, 0)


@pytest.fixture
def server(port: int) -> Iterator[GroupServer]:
    made = GroupServer("127.0.0.1", port, TOKEN, attempt=0, size=3)
    yield made
    made.stop()


class Link(Membership):
    """A member's channel that counts: its own states that member 0 has answered, and the states in
    the answers.
    """

    def __init__(
        self,
        hub: str,
        state: Callable[[], MemberState],
        token: str = TOKEN,
        certificate: Certificate | None = None,
        attempt: int = 0,
    ) -> None:
        settings = GroupSettings(
            "TestOp", "batch", 3, 0, SCHEMA, SCHEMA, "main.py", (), token=token, certificate=certificate
        )  # fmt: skip
        self.answered: list[MemberState] = []
        self.known: dict[int, MemberState] = {}
        self.received = 0
        super().__init__(settings, state().index, attempt, threading.Condition(), state)
        self.report_to(hub)

    def _take_answer(self, answer: GroupState, report: MemberReport) -> None:
        super()._take_answer(answer, report)
        self.known.update((state.index, state) for state in answer.members)
        self.received += len(answer.members)
        self.answered.append(report.state)

    def knows(self, *indexes: int) -> bool:
        return sorted(self.known) == list(indexes)


@pytest.fixture
def link(port: int) -> Iterator[Callable[..., Link]]:
    links = []

    def start(state: Callable[[], MemberState], **given: Any) -> Link:
        links.append(Link(f"127.0.0.1:{port}", state, **given))
        return links[-1]

    yield start
    for each in links:
        each.leave()


def member(index: int, **values: Any) -> Callable[[], MemberState]:
    return lambda: MemberState(index=index, phase=RUNNING, **values)


def test_members_receive_only_changed_states(server: GroupServer, link: Any) -> None:
    state = {"rows": 5}
    second = link(member(1))
    first = link(lambda: MemberState(index=0, phase=RUNNING, **state))
    wait_until(lambda: first.knows(0, 1) and second.knows(0, 1), "both know both")
    state["rows"], answered, received = 6, len(second.answered), second.received
    wait_until(
        lambda: len(first.answered) > 3 and len(second.answered) > answered + 3, "some more reports"
    )
    assert second.received == received, "rows alone are not sent"
    second.ask_all()
    assert second.known[0].rows == 6
    state["input_ended"] = True
    wait_until(lambda: second.known[0].input_ended, "the end of input is")


def test_answers_are_returned_with_the_state_they_answer(server: GroupServer, link: Any) -> None:
    sent = []

    def state() -> MemberState:
        sent.append(MemberState(index=0, rows=len(sent)))
        return sent[-1]

    answered = link(state).answered
    wait_until(lambda: len(answered) >= 2, "two answers")
    rows = [each.rows for each in answered]
    assert rows == sorted(set(rows)) and rows[-1] >= len(rows)


def test_last_state_is_sent_once_when_the_connection_closes(server: GroupServer, link: Any) -> None:
    phases = [RUNNING]
    leaving = link(lambda: MemberState(index=0, phase=phases[-1]))
    others = link(member(1))
    wait_until(lambda: others.knows(0, 1), "both are known")
    phases.append(ENDED)
    leaving.leave()
    assert leaving.answered[-1].phase == ENDED
    count = len(leaving.answered)
    leaving.leave()
    assert len(leaving.answered) == count
    wait_until(lambda: others.known[0].phase == ENDED, "the other knows that it has ended")


def test_sample_larger_than_a_message_reaches_the_member_that_asks(
    server: GroupServer, link: Any
) -> None:
    giver, taker, third = link(member(0)), link(member(1)), link(member(2))
    sample = bytes(range(256)) * 20_000
    taker.exchange_sample(0, b"")
    third.exchange_sample(0, b"a row of its own")
    assert third.has_sample and not taker.has_sample
    giver.exchange_sample(0, sample)
    wait_until(lambda: giver.has_sample and taker.has_sample, "it has arrived")
    assert taker.sample == sample and giver.sample == third.sample == b""


def taken(link: Link, start: int = 0) -> list[Chunk]:
    return list(link.take_extra_inputs(start))


def test_extra_inputs_come_to_members_of_this_attempt_that_have_the_token(
    port: int, link: Any, tmp_path: pathlib.Path
) -> None:
    log = ChunkLog(str(tmp_path / "log"))
    large = bytes(range(256)) * 20_000  # more than a message of gRPC may have by default
    log.append(3, large, 2)
    log.append(1, b"x", 1)
    log.end()
    server = GroupServer("127.0.0.1", port, TOKEN, attempt=0, size=3, chunk_log=log)
    own, stranger, stale = (
        link(member(1)),
        link(member(1), token="guess"),
        link(member(1), attempt=7),
    )
    try:
        assert [(chunk.rows, chunk.input, chunk.columns == large) for chunk in taken(own)] == [
            (3, 2, True),
            (1, 1, False),
            (0, 0, False),
        ]
        assert [chunk.columns for chunk in taken(own, start=1)] == [b"x", b""]
        with pytest.raises(grpc.RpcError, match="UNAUTHENTICATED"):
            taken(stranger)
        with pytest.raises(
            grpc.RpcError, match="the member belongs to attempt 7, this is attempt 0"
        ):
            taken(stale)
    finally:
        log.close()
        server.stop()


def test_extra_inputs_are_not_offered_without_other_hosts(server: GroupServer, link: Any) -> None:
    with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
        taken(link(member(1)))


@pytest.mark.fault("security", "A call to a group without its token is refused")
def test_call_without_the_token_is_refused_and_joins_no_group(
    server: GroupServer, link: Any
) -> None:
    stranger = link(member(1), token="guess")
    expected = "UNAUTHENTICATED: the call does not carry the token of this group"
    wait_until(lambda: stranger.last_error == expected, "it is refused")
    assert not stranger.answered
    own = link(member(0))
    wait_until(lambda: own.knows(0), "it knows itself alone")


@pytest.mark.fault("network", "Silent and malformed connections do not disturb a group")
def test_silent_and_malformed_connections_do_not_disturb_members(
    server: GroupServer, port: int, link: Any
) -> None:
    with strangers(f"127.0.0.1:{port}"):
        own = link(member(0))
        wait_until(lambda: own.knows(0), "a member is answered")


@contextmanager
def relay(port: int, cut_after: int) -> Iterator[tuple[int, list[int]]]:
    """Yield a port that leads to another, and the bytes that each connection has carried; after so
    many it is reset.
    """
    listening, carried = socket.create_server(("127.0.0.1", 0)), list[int]()

    def carry(near: socket.socket, far: socket.socket, number: int) -> None:
        with suppress(OSError):
            while carried[number] < cut_after and (data := near.recv(4096)):
                carried[number] += len(data)
                far.sendall(data)
        for each in (near, far):
            with suppress(OSError):
                # no goodbye but a reset
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listening.accept()
                far = socket.create_connection(("127.0.0.1", port))
                carried.append(0)
                for ends in ((near, far), (far, near)):
                    threading.Thread(
                        target=carry, args=(*ends, len(carried) - 1), daemon=True
                    ).start()

    accepting = threading.Thread(target=accept, daemon=True)
    accepting.start()
    yield listening.getsockname()[1], carried
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    accepting.join()


@pytest.mark.fault("network", "Connections between members that are cut again and again recover")
def test_group_connection_survives_repeated_cuts(server: GroupServer, port: int) -> None:
    with relay(port, cut_after=1000) as (through, carried):
        link = Link(f"127.0.0.1:{through}", member(1))
        try:
            wait_until(lambda: len(carried) > 3, "the connection was cut, and made again")
            answered = len(link.answered)
            wait_until(lambda: len(link.answered) > answered + 3, "member 0 answers again")
        finally:
            link.leave()


@pytest.mark.fault("network", "Hosts with IPv6 only reach each other")
def test_group_connects_hosts_with_ipv6_only() -> None:
    port = reserve("line-6", 0, 0)[1]
    server = GroupServer("::1", port, TOKEN, attempt=0, size=2)
    link = Link(Address("::1", 0, port).group, member(1))
    try:
        wait_until(lambda: link.knows(1), "it is answered")
    finally:
        link.leave()
        server.stop()
        release("line-6", 0, 0)


@pytest.mark.fault("security", "With groupTls, a connection without the key of the job is refused")
def test_encrypted_group_connection_needs_the_key_of_the_job(port: int, link: Any) -> None:
    own, other = new_certificate("Op"), new_certificate("Op")
    server = GroupServer("127.0.0.1", port, TOKEN, attempt=0, size=3, certificate=own)
    try:
        for stranger in (None, other):
            refused = link(member(1), certificate=stranger)
            wait_until(
                lambda refused=refused: refused.last_error.startswith("UNAVAILABLE: "),
                "it is refused, token and all",
            )
            assert not refused.answered
        known = link(member(0), certificate=own)
        wait_until(
            lambda: known.knows(0), "who has the key is answered, and nobody else was counted"
        )
        with socket.create_connection(("127.0.0.1", port)) as plain:
            plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            plain.settimeout(DEADLINE_S)
            with suppress(ConnectionResetError):
                assert TOKEN.encode() not in plain.recv(1000)
    finally:
        server.stop()


@pytest.mark.fault("security", "A member that a group does not have is refused")
def test_a_member_that_the_group_does_not_have_is_refused(server: GroupServer, link: Any) -> None:
    unknown = link(member(3))
    expected = "INVALID_ARGUMENT: a group of 3 has no member 3"
    wait_until(lambda: unknown.last_error == expected, "it is refused")
    assert not unknown.answered


@pytest.mark.fault("security", "A member of an earlier attempt is refused")
def test_a_member_of_another_attempt_is_refused_and_not_counted(
    server: GroupServer, link: Any
) -> None:
    stale = link(member(1, attempt=7))
    expected = "FAILED_PRECONDITION: member 1 belongs to attempt 7, this is attempt 0"
    wait_until(lambda: stale.last_error == expected, "it is refused")
    assert not stale.answered
    own = link(member(0))
    wait_until(lambda: own.knows(0), "it knows itself alone")


@pytest.mark.fault("network", "A member whose chief answers late keeps asking")
def test_unanswered_member_counts_the_seconds_and_keeps_asking(port: int, link: Any) -> None:
    early = link(member(0))
    wait_until(lambda: early.last_error.startswith("UNAVAILABLE: "), "nobody is there")
    wait_until(lambda: early.unanswered_s > 0.2, "it counts")
    assert not early.answered
    server = GroupServer("127.0.0.1", port, TOKEN, attempt=0, size=3)
    try:
        wait_until(lambda: early.knows(0), "the server that has come late answers")
        wait_until(lambda: early.unanswered_s < 0.2, "an answer restarts the count")
    finally:
        early.leave()
        server.stop()


def test_group_server_shares_its_reserved_port_and_releases_it(port: int) -> None:
    server = GroupServer("127.0.0.1", port, TOKEN, attempt=0, size=3)
    with socket.create_connection(("127.0.0.1", port)):
        pass
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port)).close()
