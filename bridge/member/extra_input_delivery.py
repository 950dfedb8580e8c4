"""Delivery of the extra inputs of a group, once to each host.

Flink sends them to member 0 alone, which passes them to its process, and stores them in a chunk log if there are other hosts.
On each other host the first member fetches them from there for its own process. These processes write the files into a folder
that the members of a host share; the other processes wait for them (`akdl.rows.extra_files`). Members share files if they have
one host address and one folder for temporary files.
"""

from __future__ import annotations

import hashlib
import os
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc

from akdl.folders.owned_folder import hold, remove_unused
from akdl.wire import Chunk, Cluster
from bridge.exceptions import TaskError
from bridge.folders.temporary_places import shared_place
from bridge.group.addresses import Address, neighbours
from bridge.group.chunk_log import ChunkLog
from bridge.group.roles import label
from bridge.group.states import KnownStates
from bridge.member.script_process import ScriptProcess
from bridge.member.session import Session
from bridge.settings import GroupSettings

_TRY_AGAIN_S = 0.5
# The line is cut, or member 0 has ended. If it stays away, this is an error of the group (`bridge.errors.diagnosis`).
_LOST = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)

Take = Callable[[int], Any]


class ExtraInputs:
    """The part of one member in this. Nothing happens where a group has no extra inputs.

    Args:
        session: The session of the member, which gets what is fetched.
        changed: Lock of the session; notified when something is fetched, and when that has failed.

    Attributes:
        chunk_log: What member 0 keeps for other hosts; None in other members, and where there are no other hosts.
        is_complete: All chunks have been given to the session, as far as they have to be fetched.
        error: Why they cannot be; None as long as nothing is wrong.
    """

    def __init__(
        self,
        settings: GroupSettings,
        group: str,
        index: int,
        session: Session,
        changed: threading.Condition,
        process: ScriptProcess,
    ) -> None:
        self._settings = settings
        self._name = f"akdl-extra-{group}-{session.attempt}"
        self._index = index
        self._session = session
        self._changed = changed
        self._process = process
        self._is_used = bool(settings.extra_schemas) and settings.size > 1
        path = os.path.join(process.private_folder, "extra-inputs")
        self.chunk_log = ChunkLog(path) if self._is_used and index == 0 else None
        self.is_complete = True
        self.error: TaskError | None = None
        self._folder = ""
        self._makes_for_others = False
        self._lock = -1  # of the folder
        self._from = ""  # whom to ask for the chunks
        self._taken = self._rows = self._checksum = 0
        self._stopped = threading.Event()
        self._call: Any = None
        self._thread: threading.Thread | None = None

    def settle(self, addresses: Sequence[Address], config: str) -> Cluster:
        """Find out who shares files with whom, and return what the process is told.

        Raises:
            TaskError: The folder of this host cannot be made, or is not this user's.
        """
        if not self._is_used:
            return Cluster(tf_config=config)
        sharing = neighbours(addresses, self._index)
        first = sharing[0]
        if len(sharing) > 1:
            # Each job has other ports. So jobs of one operator that run at once have folders of their own.
            known = hashlib.sha256(repr([tuple(address) for address in addresses]).encode()).hexdigest()[:12]
            place = shared_place(os.environ, self._settings.tmp_dirs)
            self._folder = os.path.join(place, f"{self._name}-{first}-{known}")
            self._makes_for_others = first == self._index
            with self._told_as_error(), self._changed:
                self._lock = -1 if self._stopped.is_set() else hold(self._folder)
        if self.chunk_log is not None and len(sharing) == len(addresses):
            self.chunk_log.close()
            self.chunk_log = None
        if first == self._index != 0:
            self.is_complete = False
            self._from = f"{label(0, self._settings.num_workers)} on {addresses[0].host}"
        return Cluster(tf_config=config, extra_folder=self._folder, waits_for_files=first != self._index)

    def keep(self, rows: int, columns: bytes, extra_input: int) -> None:
        """Keep a chunk of an extra input for other hosts, if there may be any; see `ChunkLog.append`."""
        if extra_input and self.chunk_log is not None:
            with self._told_as_error():
                self.chunk_log.append(rows, columns, extra_input)

    def end(self) -> None:
        """Flink brings no more of them."""
        if self.chunk_log is not None:
            with self._told_as_error():
                self.chunk_log.end()

    def may_end(self, group: KnownStates) -> bool:
        """Whether this member may end, as far as others use files of it: they are there, and so hold the folder.

        A member holds it as soon as it knows the addresses, and then begins to report. With the lock held.
        """
        return not self._makes_for_others or group.is_formed

    def fetch(self, take: Take) -> None:
        """Begin to fetch the chunks in a thread of its own, if this member has to.

        Args:
            take: Returns a gRPC call that yields the chunks after so many.
        """
        if not self.is_complete:
            self._thread = threading.Thread(target=self._fetch, args=(take,), name="akdl-extra-inputs", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop fetching and giving; the folder goes with the last process that uses it. Safe to call twice."""
        self._stopped.set()
        with self._changed:
            if self._call is not None:
                self._call.cancel()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        if self.chunk_log is not None:
            self.chunk_log.close()
        with self._changed:
            lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)
        if self._folder:
            remove_unused(self._folder)

    @contextmanager
    def _told_as_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._process.error(f"extra inputs: {error}") from None

    def _fetch(self, take: Take) -> None:
        try:
            while not self._take_some(take):
                self._stopped.wait(_TRY_AGAIN_S)
        except Exception as error:  # any error has to reach the Flink function, which waits
            reason = f"{error.code().name}: {error.details()}" if isinstance(error, grpc.RpcError) else str(error)
            with self._changed:
                self.error = self._process.error(f"the extra inputs did not come completely from {self._from}: {reason}")
                self._changed.notify_all()

    def _take_some(self, take: Take) -> bool:
        """Take chunks as long as the line holds; return whether there is no more to do."""
        with self._changed:
            if self._stopped.is_set():
                return True
            self._call = take(self._taken)
        try:
            for chunk in self._call:
                if not self._pass_on(chunk):
                    return True
        except grpc.RpcError as error:
            if error.code() not in _LOST:
                raise
        return False

    def _pass_on(self, chunk: Chunk) -> bool:
        """Give a chunk to the process, when it has room; return whether more is needed."""
        if chunk.HasField("end"):
            if (chunk.end.rows, chunk.end.checksum) != (self._rows, self._checksum):
                raise EOFError(
                    f"the end mark announces {chunk.end.rows} rows with checksum {chunk.end.checksum:08x}, "
                    f"{self._rows} rows with {self._checksum:08x} came"
                )
            with self._changed:
                self.is_complete = True
                self._changed.notify_all()
            return False
        if not 1 <= chunk.input <= len(self._settings.extra_schemas):
            raise ValueError(f"a chunk of the input {chunk.input} came, which is no extra input")
        columns = chunk.columns  # asked for once: protobuf copies it each time
        with self._changed:
            self._changed.wait_for(lambda: self._stopped.is_set() or self._session.has_room(len(columns)))
            if self._stopped.is_set() or self._session.outcome is not None:
                return False
            self._session.offer(chunk.rows, columns, chunk.input)
            self._changed.notify_all()
        self._taken += 1
        self._rows, self._checksum = self._rows + chunk.rows, zlib.crc32(columns, self._checksum)
        return True
