"""Which GPUs of this host a process may use: no two processes get the same one by accident.

A lease is a file lock per GPU on a descriptor that the TensorFlow process inherits. The kernel keeps it until the last
process with that descriptor is gone, so a GPU is never handed out while something of the old process may still use its
memory, and is free again after any death, even by SIGKILL. Nothing else is kept: no server, no state to clean up. The lock
files stay; deleting one would let two processes lock two files of the same name.

The locks lie in a folder of the user alone. In a folder for everybody, any user could keep the others from all GPUs. So
leases see each other when their processes have the same user and the same /tmp. Between users and containers, whoever
places these has to hand the GPUs out, in CUDA_VISIBLE_DEVICES or AKDL_GPUS, as YARN, Kubernetes and Slurm do.

How to use a lease:

    found = inventory(os.environ)
    if found is not None:  # else nothing is known, and CUDA_VISIBLE_DEVICES stays as it is
        leased = lease(count, found)
        environment["CUDA_VISIBLE_DEVICES"] = leased.visible  # empty hides all; not to set it would show all
        subprocess.Popen(..., env=environment, pass_fds=leased.fds)
        leased.release()  # any time after the start: the lease goes on for as long as the child lives
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence

from akdl.folders.file_lock import try_lock
from bridge.exceptions import ConfigurationError
from bridge.folders.work_folder import private_folder

logger = logging.getLogger(__name__)

QUERY_S = 30.0  # without persistence mode the driver starts up first, which takes seconds per GPU
_GUARD_S = 10.0
_POLL_S = 0.05
_NAME = re.compile(r"[\w./:-]+")  # an index, GPU-<uuid>, MIG-<uuid>, MIG-GPU-<uuid>/1/0


def inventory(environment: Mapping[str, str]) -> list[str] | None:
    """Return the GPUs that processes of this host may get, or None when nothing is known about them.

    AKDL_GPUS names them ("0,1" or UUIDs; empty for none), else nvidia-smi is asked and answers with UUIDs: CUDA counts the
    GPUs in another order than nvidia-smi unless told otherwise. Either way only those in CUDA_VISIBLE_DEVICES count, where
    that is set. Where it is set and there is no nvidia-smi, it is the list.
    """
    chosen, visible = environment.get("AKDL_GPUS"), environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        known = {name: name for name in _names(chosen)}
        wrong = [name for name in known if not _NAME.fullmatch(name)]
        if wrong:
            raise ConfigurationError(f"AKDL_GPUS: expected indexes or UUIDs of GPUs separated by commas, got {chosen!r}")
    else:
        program = shutil.which("nvidia-smi", path=environment.get("PATH", os.defpath))
        if program is None:
            return None if visible is None else list(dict.fromkeys(_cut(_names(visible))))
        known = _ask(program)
    if visible is None:
        return list(dict.fromkeys(known.values()))
    found = list(dict.fromkeys(_visible(known, _names(visible))))
    if known and visible and not found:
        logger.warning("none of the GPUs %s is in CUDA_VISIBLE_DEVICES=%s: they are not used", ", ".join(known), visible)
    return found


class Lease:
    """GPUs of one process, for as long as this object or a child that inherited `fds` holds them."""

    def __init__(self, devices: Sequence[str], fds: Sequence[int]) -> None:
        self.devices = tuple(devices)
        self.fds = tuple(fds)
        self._held = list(fds)

    @property
    def visible(self) -> str:
        """The value of CUDA_VISIBLE_DEVICES for the process that gets the lease."""
        return ",".join(self.devices)

    def release(self) -> None:
        """Give the lease up on this side. Safe to call twice."""
        while self._held:
            os.close(self._held.pop())  # not LOCK_UN, which would end the lease of the child too

    def __enter__(self) -> Lease:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Lease of {self.visible or 'no GPU'}{'' if self._held or not self.fds else ', released here'}>"


def lease(count: int | None, inventory: Sequence[str], wait_s: float = 0.0, folder: str | None = None) -> Lease:
    """Lease GPUs that no other process has.

    Args:
        count: How many; None stands for one if one is free at once, else none.
        wait_s: How long to wait for `count` free ones: processes of a job that has just ended may still be on their way out.
        folder: Where the locks are; by default a folder of this user in /tmp.

    Raises:
        ConfigurationError: There are not as many, or others have them.
    """
    if count == 0 or not inventory:
        if count:
            raise ConfigurationError(f"{_gpus(count)} wanted for one process, but this host has none. {_HOW_TO_NAME_THEM}")
        return Lease((), ())
    if count is not None and count > len(inventory):
        raise ConfigurationError(
            f"{_gpus(count)} wanted for one process, but this host has only {len(inventory)}: {', '.join(inventory)}. "
            f"Ask for fewer. {_HOW_TO_NAME_THEM}"
        )
    place = _lock_folder(folder)
    deadline = time.monotonic() + wait_s
    while True:
        with _guard(place):
            leased = _try(1 if count is None else count, inventory, place)
            if leased is not None:
                return leased
            if count is None:
                return Lease((), ())
            if time.monotonic() >= deadline:
                raise ConfigurationError(_too_few(count, inventory, place))
        time.sleep(_POLL_S)


_HOW_TO_NAME_THEM = "The variable AKDL_GPUS of the TaskManager can name others, such as AKDL_GPUS=0,1."


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _cut(names: Sequence[str]) -> Iterator[str]:
    """Yield names up to the first that is none: CUDA ignores it and all after it (-1; Slurm says NoDevFiles)."""
    for name in names:
        if not re.fullmatch(r"\d+|(GPU|MIG)-.+", name):
            return
        yield name


def _visible(known: Mapping[str, str], names: Sequence[str]) -> Iterator[str]:
    """Yield the known GPUs among the names of CUDA_VISIBLE_DEVICES, which may shorten UUIDs."""
    for name in _cut(names):
        if name in known:
            yield known[name]
        elif name.startswith("GPU-"):
            yield from (device for device in known.values() if device.startswith(name))
        elif name.startswith("MIG-") and known:
            yield name  # a part of a GPU, which nvidia-smi does not list among them


def _ask(program: str) -> dict[str, str]:
    """Return index and UUID -> UUID of what nvidia-smi finds; nothing when it fails."""
    command = [program, "--query-gpu=index,uuid", "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=QUERY_S).stdout
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stdout", None) or ""  # it complains on stdout
        logger.warning("nvidia-smi failed, so no GPU is used: %s %s", error, str(said).strip())
        return {}
    pairs = [_names(line) for line in answer.splitlines() if line.count(",") == 1]
    return {name: uuid for index, uuid in pairs for name in (index, uuid)}


def _lock_folder(folder: str | None) -> str:
    """Return the folder of the locks, which belongs to this user alone.

    /tmp rather than TMPDIR: some cluster managers give each process another one, and leases would not see each other. For the
    same reason it is an error when another user has taken the name, and there is no other place.
    """
    if folder is None:
        base = "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else tempfile.gettempdir()
        folder = os.path.join(base, f"akdl_gpus_{os.geteuid()}")
    return private_folder(folder, "the leases of GPUs")


def _open_device(folder: str, device: str) -> int:
    return _open(folder, "gpu-" + urllib.parse.quote(device, safe=""))


def _open(folder: str, name: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(os.path.join(folder, name), flags, 0o600)


@contextlib.contextmanager
def _guard(folder: str) -> Iterator[None]:
    """Let one process choose at a time: two that want two of two would take one each, and both fail."""
    fd = _open(folder, "guard")
    try:
        deadline = time.monotonic() + _GUARD_S
        while not try_lock(fd):
            if time.monotonic() >= deadline:
                raise ConfigurationError(
                    f"another process has locked {folder}/guard for {_GUARD_S:g} s: is a process of akdl suspended?"
                )
            time.sleep(_POLL_S / 10)
        yield
    finally:
        os.close(fd)


def _try(count: int, inventory: Sequence[str], folder: str) -> Lease | None:
    """Lease the first free ones; None, and nothing leased, when they are too few."""
    devices: list[str] = []
    fds: list[int] = []
    try:
        for device in inventory:
            fd = _open_device(folder, device)
            if not try_lock(fd):
                os.close(fd)
                continue
            fds.append(fd)
            devices.append(device)
            os.truncate(fd, 0)
            os.write(fd, str(os.getpid()).encode())  # for the message of who finds it taken
            if len(fds) == count:
                break
    except BaseException:
        Lease(devices, fds).release()
        raise
    found = Lease(devices, fds)
    if len(fds) == count:
        return found
    found.release()
    return None


def _too_few(count: int, inventory: Sequence[str], folder: str) -> str:
    taken = []
    for device in inventory:
        fd = _open_device(folder, device)
        try:
            if not try_lock(fd):
                taken.append(f"{device} (leased by process {os.read(fd, 20).decode() or 'unknown'})")
        finally:
            os.close(fd)
    return (
        f"{_gpus(count)} wanted for one process, but this host has {len(inventory) - len(taken)} free of {len(inventory)}; "
        f"others have {', '.join(taken)}. Ask for fewer per process, run fewer processes on this host (fewer slots per "
        "TaskManager), or wait for the end of the job that has them."
    )


def _gpus(count: int) -> str:
    return "1 GPU is" if count == 1 else f"{count} GPUs are"
