"""A member's view of its group, over the real channel on loopback."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from akdl.wire import ENDED, RUNNING, STARTING, MemberReport, MemberState
from bridge.group.addresses import Address, release, reserve
from bridge.group.membership import Membership
from bridge.schema import Schema
from bridge.settings import GroupSettings
from tests.support.leftovers import wait_until

SETTINGS = GroupSettings(
    "TestOp", "batch", 2, 0, Schema.parse("id BIGINT"), Schema.parse("x DOUBLE"), "main.py", (), token="secret"
)  # fmt: skip


class Peer:
    """A member with a state to change."""

    def __init__(self, index: int, settings: GroupSettings = SETTINGS) -> None:
        self.changed = threading.Condition()
        self.state = MemberState(index=index, phase=STARTING)
        self.membership = Membership(settings, index, 0, self.changed, lambda: self.state)

    def enter(self, phase: int) -> None:
        with self.changed:
            self.state = MemberState(index=self.state.index, phase=phase)

    def sees(self, what: Callable[[Peer], bool]) -> bool:
        with self.changed:
            return what(self)


@pytest.fixture
def peers() -> Iterator[list[Peer]]:
    """Two members that have joined."""
    addresses = [Address("127.0.0.1", *reserve("membership", index, 0)) for index in (0, 1)]
    made = [Peer(0), Peer(1)]
    for peer in made:
        peer.membership.join(addresses)
    yield made
    for peer in reversed(made):
        peer.membership.leave()
        peer.membership.leave()
    for index in (0, 1):
        release("membership", index, 0)


def test_members_learn_states_and_addresses_of_each_other(peers: list[Peer]) -> None:
    for peer in peers:
        assert not peer.sees(lambda self: self.membership.group().is_formed)
        peer.enter(RUNNING)
    for peer in peers:
        wait_until(
            lambda peer=peer: peer.sees(lambda self: self.membership.group().is_formed),
            "all have connected",
        )
        assert peer.membership.hub == peers[0].membership.hub != ""
        assert peer.membership.unanswered_s < 30
        assert "127.0.0.1" in peer.membership.group().describe()


def test_a_member_knows_when_the_chief_knows_of_its_end(peers: list[Peer]) -> None:
    peers[1].enter(RUNNING)
    wait_until(
        lambda: peers[0].sees(lambda self: not self.membership.group().unformed[1:]),
        "the chief knows that it runs",
    )
    assert not peers[1].membership.is_end_known
    peers[1].enter(ENDED)
    wait_until(lambda: peers[1].membership.is_end_known, "the chief knows")
    wait_until(
        lambda: peers[0].sees(lambda self: self.membership.group().have_ended([1])),
        "the chief's own link hears of it",
    )


@pytest.mark.fault("network", "A worker whose last answer is lost ends, though the chief has left")
@pytest.mark.parametrize("starts_again", [False, True])
def test_a_member_leaves_when_the_chief_has_left(
    peers: list[Peer], starts_again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    chief, peer = (each.membership for each in peers)
    wait_until(lambda: peer._version > 0, "the chief answers")
    chief.leave()
    if starts_again:
        peer.leave()
        peer = peers[1].membership = Membership(
            SETTINGS, 1, 0, peers[1].changed, lambda: peers[1].state, peer
        )
        peer.report_to(chief.hub)
    peers[1].enter(ENDED)
    wait_until(lambda: "UNAVAILABLE" in peer.last_error, "the chief does not answer")
    assert not peer.is_over
    monkeypatch.setattr("bridge.group.membership.LOST_S", 0.0)
    assert peer.is_over and not peer.is_end_known


def test_a_chief_stays_for_a_member_that_has_had_no_answer() -> None:
    chief = Peer(0)
    chief.enter(ENDED)
    report = MemberReport(state=MemberState(index=1, phase=ENDED))
    chief.membership.group().update(
        chief.membership._states.answer(report, time.monotonic()).members
    )
    assert not chief.sees(lambda self: self.membership.is_over)
    report.version = 1
    chief.membership._states.answer(report, time.monotonic())
    assert chief.sees(lambda self: self.membership.is_over)


def test_member_of_a_group_of_one_has_no_connection() -> None:
    alone = Peer(
        0,
        GroupSettings(
            "TestOp", "batch", 1, 0, SETTINGS.input_schema, SETTINGS.output_schema, "main.py", ()
        ),
    )
    alone.membership.join([Address("127.0.0.1", 1, 2)])
    assert (alone.membership.hub, alone.membership.unanswered_s, alone.membership.last_error) == (
        "",
        0.0,
        "",
    )
    alone.enter(RUNNING)
    assert alone.sees(lambda self: self.membership.group().is_formed)
    alone.membership.leave()
