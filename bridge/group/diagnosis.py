"""Diagnosis of a group by one of its members: states in, a fault out. Pure.

Each member runs this once a second on the same states. The rules are made so that the member at
fault fails first, because Flink reports the error that arrives first and then ends the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge.group.addresses import label
from bridge.group.state_store import LOST_S, report_s
from bridge.group.states import KnownStates
from bridge.settings import GroupSettings

# A member waits this long for an error of another member that is closer to the cause.
ECHO_S = 5.0


@dataclass(frozen=True)
class Situation:
    """Facts about a member that it has seen itself, besides the states of the group."""

    index: int
    age_s: float
    is_connected: bool
    has_addresses: bool
    is_running: bool
    has_outcome: bool
    # The addresses of these members have not arrived.
    unaddressed: Sequence[int] = ()
    # This is the address of the server of member 0, to which all members report.
    hub: str = ""
    unanswered_s: float = 0.0
    last_error: str = ""
    # This is the failure of its script, in one line.
    failure: str = ""


@dataclass(frozen=True)
class Fault:
    """Reason for which a member has to fail; the error of a standstill has its stacks too."""

    what: str
    is_standstill: bool = False


def fault_of(member: Situation, group: KnownStates, settings: GroupSettings) -> Fault | None:
    """Return the fault for which this member has to fail now, or None.

    The order of the checks is the order of the life of a group. A later one assumes that the
    earlier ones have passed.
    """
    if not member.is_connected or not member.has_addresses or not group.is_formed:
        # The member that has not connected is the cause, so its error comes first.
        own_s = ECHO_S if member.is_connected else 0.0
        if member.age_s > settings.start_timeout_s + own_s:
            return _not_formed(member, group, settings)
        return None
    if member.is_running and member.unanswered_s > LOST_S:
        return Fault(
            f"the chief has not answered for {LOST_S:g} s at {member.hub} ({member.last_error})."
            " Has its host failed, or the network between the hosts?"
        )
    silent = group.silent(LOST_S, member.index)
    if silent:
        return Fault(
            f"{', '.join(silent)} has not reported for {LOST_S:g} s. Has its host failed, was"
            " Flink's Python worker stopped there, or has the network between the hosts failed?"
        )
    if not member.is_running:
        return None
    # While a worker still makes progress, the end of a parameter server need not be a fault.
    if member.has_outcome and group.is_deserted_by(member.index):
        ended = member.failure or "the script returned"
        return Fault(
            f"{ended}, but the workers that it serves still run, and make no progress. In this"
            " role, a script must serve until it is stopped, for example with"
            " tf.distribute.Server(...).join(). If the script needs no parameter servers, set"
            " numPSs to 0"
        )
    return _standstill(member, group, settings)


def _not_formed(member: Situation, group: KnownStates, settings: GroupSettings) -> Fault:
    """Describe why the group is not complete, as far as this member can see it."""
    limit = f"within the {settings.start_timeout_s:g} s of startTimeout"
    if not member.is_connected:
        return Fault(f"the process did not connect {limit}")
    if not member.has_addresses:
        missing = ", ".join(label(index, settings.num_workers) for index in member.unaddressed)
        reason = (
            f"the address of {missing} did not arrive. Flink has not started this task, or its"
            " Python worker blocks while it starts, imports or unpickles: look at the"
            " TaskManager's log, and at its processes beam_boot"
        )
    # Members report at this interval while the group forms, so an answer is missing.
    elif member.unanswered_s > report_s(settings.size, is_urgent=True) + 1.0:
        reason = (
            f"the chief does not answer at {member.hub} ({member.last_error}). If there is a"
            " firewall between the hosts, open their ports to each other; if a host has several"
            " addresses, select one with hostNetwork"
        )
    else:
        reason = (
            f"{', '.join(group.unformed)} did not report or connect. Read the log of that process,"
            f" and check that its host reaches {member.hub or 'this host'}"
        )
    return Fault(f"the group was not complete {limit}: {reason}")


def _standstill(member: Situation, group: KnownStates, settings: GroupSettings) -> Fault | None:
    idle_s = settings.stall_timeout_s
    if not idle_s:
        return None
    lagging = group.lagging(idle_s)
    # The error of the lagging member has its stacks, so it gets five seconds to fail first.
    if lagging is not None and lagging != member.index:
        lagging = group.lagging(idle_s + ECHO_S)
    if lagging is None:
        return None
    name = "this script" if lagging == member.index else label(lagging, settings.num_workers)
    return Fault(
        f"no process of the group has made progress for {idle_s:g} s, and {name} lags behind."
        " stallTimeout sets this limit",
        is_standstill=True,
    )
