"""Statuses of members on a cluster, from the files that TaskManagers write next to Flink's logs."""

from __future__ import annotations

import logging
import os
import time
import urllib.parse
from collections.abc import Collection

from google.protobuf.message import DecodeError

from akdl.wire.status_pb2 import MemberStatus
from bridge.member.status import ENDED, LAST_SUFFIX, SUFFIX
from operators.flink.rest import Rest

logger = logging.getLogger(__name__)

_SEARCH_S = 2.0  # from one look for new files to the next, as long as members are missing
_SEARCH_LATER_S = 15.0  # and when all are there: a restart makes other ones


class RestSource:
    """Members of `groups`, or all. Files are searched less often once all of `members`, a number, are there.

    No call of `read` follows one with `is_last`.
    """

    def __init__(self, rest: Rest, groups: Collection[str] | None = None, members: int | None = None) -> None:
        self._rest = rest
        self._prefixes = ("akdl-",) if groups is None else tuple(f"akdl-{group}-" for group in groups)
        self._members = members
        self._files: dict[str, str] = {}  # name of each file, without its suffix, and its path of REST
        self._read: dict[str, MemberStatus] = {}
        self._search_due = 0.0

    def read(self, is_last: bool = False) -> list[MemberStatus]:
        now = time.monotonic()
        if is_last or now >= self._search_due:
            self._search()
            is_complete = self._members is not None and len(self._files) >= self._members
            self._search_due = now + (_SEARCH_LATER_S if is_complete else _SEARCH_S)
        for name, path in self._files.items():
            known = self._read.get(name)
            if known is None or known.phase != ENDED:
                try:
                    self._read[name] = MemberStatus.FromString(self._rest.content(path))
                except (OSError, DecodeError) as error:  # its TaskManager may have gone, or the member has ended just now
                    logger.debug("cannot read %s: %s", path, error)
                    self._search_due = min(self._search_due, now + _SEARCH_S)
        return list(self._read.values())

    def _search(self) -> None:
        for manager in self._rest.get("/taskmanagers")["taskmanagers"]:
            folder = f"/taskmanagers/{manager['id']}/logs"
            for file in self._rest.get(folder)["logs"]:
                name, suffix = os.path.splitext(file["name"])
                if suffix not in (SUFFIX, LAST_SUFFIX) or not name.startswith(self._prefixes):
                    continue
                if suffix == LAST_SUFFIX or not self._files.get(name, "").endswith(LAST_SUFFIX):
                    self._files[name] = f"{folder}/{urllib.parse.quote(file['name'])}"
