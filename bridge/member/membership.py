"""A member among the others: what it tells them of itself, and what it knows of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from akdl.wire import ENDED, GroupState, MemberState
from bridge.group.addresses import Address
from bridge.group.chunk_log import Spool
from bridge.group.group_channel import GroupLink, GroupServer, OwnWord
from bridge.group.state_store import stands_still
from bridge.group.states import KnownStates
from bridge.settings import GroupSettings


class Membership:
    """Keeps the last known states of all members, and the line to member 0.

    Attributes:
        is_told: Member 0 knows that this member has ended.
        waits: This member waits for others, and hears of them more often.
    """

    def __init__(
        self,
        settings: GroupSettings,
        index: int,
        attempt: int,
        changed: threading.Condition,
        own_state: Callable[[], MemberState],
    ) -> None:
        self._settings = settings
        self._index = index
        self._attempt = attempt
        self._changed = changed
        self._own_state = own_state
        self._known = KnownStates(settings)
        self._server: GroupServer | None = None
        self._link: GroupLink | None = None
        self._knows_progress = False
        self.is_told = False
        self.waits = False

    def join(self, addresses: Sequence[Address], spool: Spool | None = None) -> None:
        """Begin to report to member 0, and to answer the others where this is member 0.

        Args:
            spool: What member 0 gives to other hosts of the extra inputs.
        """
        with self._changed:
            self._known.hosts = [address.host for address in addresses]
        if len(addresses) == 1:
            return
        hub, own, token, tls = addresses[0], addresses[self._index], self._settings.token, self._settings.certificate
        if self._index == 0:
            self._server = GroupServer(own.host, own.group_port, token, self._attempt, len(addresses), tls, spool)
        self._link = GroupLink(hub.group, token, len(addresses), self._word, self._on_answer, tls)

    def group(self) -> KnownStates:
        """Return what is known of the group, this member's own state included. With the lock held."""
        self._known.update([self._own_state()])
        return self._known

    @property
    def is_over(self) -> bool:
        """Whether it may leave: member 0 when it has told everybody, others when member 0 knows. With the lock held."""
        return self.is_told if self._index else self.group().have_ended(range(self._settings.size))

    def leave(self) -> None:
        """Report once more and hang up. Safe to call twice."""
        if self._link is not None:
            self._link.stop()
        if self._server is not None:
            self._server.stop()

    @property
    def hub(self) -> str:
        """Address of member 0's server; "" in a group of one, and as long as it is not known."""
        return self._link.address if self._link else ""

    @property
    def unanswered_s(self) -> float:
        """For how many seconds member 0 has not answered."""
        return self._link.unanswered_s if self._link else 0.0

    @property
    def last_error(self) -> str:
        """Why it did not, as gRPC says it."""
        return self._link.last_error if self._link else ""

    def ask_all(self) -> None:
        """Learn the last state of all others now, not only what has changed in essence. Without the lock."""
        if self._link is not None:
            self._link.ask_all()

    def settle_sample(self, giver: int | None, own: bytes) -> Callable[[], bool]:
        """Give a row to members without any, or ask for one.

        Args:
            giver: The member that gives a row; None where none is needed.
            own: A row of this member as an Arrow stream; empty without one.

        Returns:
            Whether the row has gone to member 0, or has come from there; True where this member has nothing to do with it.
        """
        link = self._link
        if link is None or giver is None:
            return lambda: True
        if giver == self._index:
            link.give_sample(own)
            return lambda: link.is_sample_given
        if own:
            return lambda: True
        link.ask_for_sample()
        return lambda: link.sample is not None

    def take_extra_inputs(self, taken: int) -> Any:
        """Return a gRPC call for chunks of the extra inputs, see `GroupLink.take_extra_inputs`. In a group of several only."""
        assert self._link is not None
        return self._link.take_extra_inputs(self._attempt, taken)

    @property
    def sample(self) -> bytes | None:
        """The row of another member, an Arrow stream; None before it has come."""
        return self._link.sample if self._link is not None else None

    def _word(self) -> OwnWord:
        with self._changed:
            state = self._own_state()
            is_urgent = self.waits or not self._known.is_formed
        return OwnWord(state, is_urgent, stands_still(state, self._settings))

    def _on_answer(self, answer: GroupState, word: OwnWord) -> None:
        with self._changed:
            if answer.is_all:
                self._known.update(answer.members)
                self._knows_progress = True
            else:
                self._known.update_essence(answer.members)
                if self._knows_progress and not word.stands_still:
                    self._known.forget_progress()
                    self._knows_progress = False
            is_told = word.state.phase == ENDED
            if answer.members or is_told != self.is_told:
                self.is_told = is_told
                self._changed.notify_all()
