"""Statuses of members, as tests write them down."""

from __future__ import annotations

from typing import Any

from akdl.wire.status_pb2 import MemberStatus
from bridge.member.status import STARTING


def status_of(group: str, index: int, label: str, **known: Any) -> MemberStatus:
    """Return the status of a worker that starts, apart from the given entries."""
    return MemberStatus(
        **{
            "group": group,
            "index": index,
            "label": label,
            "is_worker": True,
            "phase": STARTING,
            **known,
        }
    )
