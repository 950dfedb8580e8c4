"""Delivery of the extra inputs of a group, which every process gets as a whole.

Flink sends them to member 0, and one member of each other host fetches them from there, so that an
input of 40 MB crosses the network once per host and not once per member. The other members of a
host read the files that the first one writes. Rows of a share never take this path.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc

from akdl.storage.locked_folder import hold, remove_unused
from akdl.wire import Chunk, Cluster
from akdl.wire.serialized import Tally
from bridge.exceptions import TaskError
from bridge.group.addresses import Address, label, members_on_host
from bridge.group.chunk_log import ChunkLog
from bridge.group.states import KnownStates
from bridge.host.places import shared_place
from bridge.member.script_process import ScriptProcess
from bridge.member.session import Session

_TRY_AGAIN_S = 0.5
# The connection is cut, or member 0 has ended. If that lasts, `bridge.group.diagnosis` reports it.
_LOST = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)

Take = Callable[[int], Any]


class ExtraInputs:
    """One member's part in the delivery. It does nothing for a group without extra inputs.

    A member has one of three parts, which is known once the addresses are: member 0 keeps the
    chunks for other hosts in a log on its disk; the first member of another host fetches them in a
    thread of its own; any other one waits for the files of the first member on its host.
    """

    def __init__(self, session: Session, process: ScriptProcess) -> None:
        self._session = session
        self._process = process
        self._settings = settings = process.settings
        self._index = index = process.index
        self._changed = process.changed
        self._name = f"akdl-extra-{process.group}-{session.attempt}"
        self._is_used = bool(settings.extra_schemas) and settings.size > 1
        path = f"{process.private_folder}/extra-inputs"
        # The log is for members of other hosts. Whether there are any shows with the addresses.
        self.chunk_log = ChunkLog(path) if self._is_used and index == 0 else None
        # True once all chunks that this member has to fetch have been passed to the session.
        self.is_complete = True
        self.error: TaskError | None = None
        # The members of this host share the files in this folder.
        self._folder = ""
        # True for the member whose process writes these files.
        self._makes_for_others = False
        # Descriptor of the folder's lock, which keeps the folder from removal.
        self._lock = -1
        self._from = ""  # member 0, as messages name it
        # Number of chunks that have arrived. A broken connection resumes behind them.
        self._taken = 0
        self._tally = Tally()
        self._stopped = threading.Event()
        self._call: Any = None
        self._thread: threading.Thread | None = None

    def settle(self, addresses: Sequence[Address], config: str) -> Cluster:
        """Find this member's part from all addresses, and return the message for its process.

        Each member decides for itself, from the same addresses, so no message is needed for it.

        Args:
            addresses: Addresses of the members, by index.
            config: TF_CONFIG of the process.

        Raises:
            TaskError: The shared folder cannot be made.
        """
        if not self._is_used:
            return Cluster(tf_config=config)
        sharing = members_on_host(addresses, self._index)
        first = sharing[0]
        if len(sharing) > 1:
            # Each job has other ports, so concurrent jobs of one operator have separate folders.
            known = hashlib.sha256(
                repr([tuple(address) for address in addresses]).encode()
            ).hexdigest()[:12]
            place = shared_place(self._settings.tmp_dirs)
            self._folder = f"{place}/{self._name}-{first}-{known}"
            self._makes_for_others = first == self._index
            # Another thread may have stopped this member, and would not release a lock that is
            # taken later.
            with self._as_task_error(), self._changed:
                self._lock = -1 if self._stopped.is_set() else hold(self._folder)
        # Chunks that arrived before the addresses are in the log already. Without other hosts,
        # nothing reads it.
        if self.chunk_log is not None and len(sharing) == len(addresses):
            self.chunk_log.close()
            self.chunk_log = None
        if first == self._index != 0:
            self.is_complete = False
            self._from = f"{label(0, self._settings.num_workers)} on {addresses[0].host}"
        return Cluster(
            tf_config=config, extra_folder=self._folder, waits_for_files=first != self._index
        )

    def keep(self, rows: int, columns: bytes, extra_input: int) -> None:
        """Keep a chunk for other hosts, on disk: they read at the speed of their own processes."""
        if extra_input and self.chunk_log is not None:
            with self._as_task_error():
                self.chunk_log.append(rows, columns, extra_input)

    def end(self) -> None:
        if self.chunk_log is not None:
            with self._as_task_error():
                self.chunk_log.end()

    def may_end(self, group: KnownStates) -> bool:
        """Return True when the members that use this member's files hold the folder: from their
        first report on.
        """
        return not self._makes_for_others or group.is_formed

    def fetch(self, take: Take) -> None:
        """Fetch the chunks in a thread, if this member has to. `take(n)` returns a gRPC call for
        all but the first n.
        """
        if not self.is_complete:
            self._thread = threading.Thread(
                target=self._fetch, args=(take,), name="akdl-extra-inputs", daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """End the thread that fetches, and release the folder; its last user removes it."""
        # The thread waits for a chunk, which the cancellation ends, or for room, for which it is
        # woken.
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
            lock = self._lock
            self._lock = -1
        # The lock is released before the removal, because it would count as a user of the folder.
        if lock >= 0:
            os.close(lock)
        if self._folder:
            remove_unused(self._folder)

    @contextmanager
    def _as_task_error(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._process.error(f"extra inputs: {error}") from None

    def _fetch(self, take: Take) -> None:
        """Fetch all chunks, in a thread of its own, and leave an error where `Member` finds it."""
        try:
            while not self._take_some(take):
                self._stopped.wait(_TRY_AGAIN_S)
        # Every error has to reach the Flink function, which otherwise waits for the last chunk.
        except Exception as error:
            reason = (
                f"{error.code().name}: {error.details()}"
                if isinstance(error, grpc.RpcError)
                else str(error)
            )
            with self._changed:
                self.error = self._process.error(
                    f"the extra inputs did not arrive completely from {self._from}: {reason}"
                )
                self._changed.notify_all()

    def _take_some(self, take: Take) -> bool:
        """Read until the connection is lost; return True if nothing is left to read."""
        with self._changed:
            if self._stopped.is_set():
                return True
            # Under the lock, `stop` either finds this call and cancels it, or has set `_stopped`
            # before.
            self._call = take(self._taken)
        try:
            for chunk in self._call:
                if not self._pass_on(chunk):
                    return True
        except grpc.RpcError as error:
            # A refusal, as of another attempt, would be the same at the next try.
            if error.code() not in _LOST:
                raise
        return False

    def _pass_on(self, chunk: Chunk) -> bool:
        if chunk.HasField("end"):
            self._tally.check(chunk.end)
            with self._changed:
                self.is_complete = True
                self._changed.notify_all()
            return False
        if not 1 <= chunk.input <= len(self._settings.extra_schemas):
            inputs = len(self._settings.extra_schemas)
            raise ValueError(
                f"expected a chunk of extra input 1 to {inputs}, got one of input {chunk.input}"
            )
        # The field is read once, because protobuf copies it with each access.
        columns = chunk.columns
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopped.is_set() or self._session.has_room(len(columns))
            )
            # A script that has returned takes no more chunks, and then the member does not wait for
            # them.
            if self._stopped.is_set() or self._session.outcome is not None:
                return False
            self._session.offer(chunk.rows, columns, chunk.input)
            self._changed.notify_all()
        self._taken += 1
        self._tally.add(chunk.rows, columns)
        return True
