"""Leases of this host's GPUs: no two processes get the same one by accident.

A lease is a file lock per GPU on a descriptor that the TensorFlow process inherits, so the kernel
frees the GPU after any death, and not before the last process with the descriptor has ended. The
lock files stay: if one were deleted, two processes could lock two files of the same name. Their
folder belongs to the user alone, as any user could block all GPUs in a public one; between users
and containers, the cluster manager distributes GPUs in CUDA_VISIBLE_DEVICES or AKDL_GPUS.
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

from akdl.storage.locked_folder import try_lock
from bridge.exceptions import ConfigurationError, refused_at
from bridge.host.places import private_folder, user_place

logger = logging.getLogger(__name__)

# Without persistence mode, the driver starts up for each query, which takes seconds per GPU.
QUERY_S = 30.0
# The guard is held for the tries of all locks, which take milliseconds, so after this time its
# holder is probably suspended.
_GUARD_S = 10.0
_POLL_S = 0.05
# A name is an index, GPU-<uuid>, MIG-<uuid> or MIG-GPU-<uuid>/1/0.
_NAME = re.compile(r"[\w./:-]+")


def inventory(environment: Mapping[str, str]) -> list[str] | None:
    """GPUs that processes of this host may use, or None if they are unknown.

    AKDL_GPUS names them ("0,1" or UUIDs; empty for no GPU), else nvidia-smi lists their UUIDs: CUDA
    counts them in another order. CUDA_VISIBLE_DEVICES limits both, and is the list without
    nvidia-smi.
    """
    chosen = environment.get("AKDL_GPUS")
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        known = {name: name for name in _names(chosen)}
        if not all(map(_NAME.fullmatch, known)):
            raise ConfigurationError(
                f"AKDL_GPUS: expected indexes or UUIDs of GPUs separated by commas, got {chosen!r}"
            )
    else:
        program = shutil.which("nvidia-smi", path=environment.get("PATH", os.defpath))
        if program is None:
            return None if visible is None else list(dict.fromkeys(_cut(_names(visible))))
        known = _ask(program)
    if visible is None:
        return list(dict.fromkeys(known.values()))
    # A GPU that is named twice is one GPU, for which a process could otherwise wait that holds it
    # itself.
    found = list(dict.fromkeys(_visible(known, _names(visible))))
    if known and visible and not found:
        logger.warning(
            "the GPUs %s are not used, because CUDA_VISIBLE_DEVICES=%s leaves them out",
            ", ".join(known),
            visible,
        )
    return found


class Lease:
    """GPUs of one process, for as long as this object or a child that inherited `fds` holds
    them.
    """

    def __init__(self, devices: Sequence[str] | None = None, fds: Sequence[int] = ()) -> None:
        self.devices = tuple(devices or ())
        self.visible = ",".join(self.devices)
        # Where the host's GPUs are unknown, the process sees all of them.
        self.variables = {} if devices is None else {"CUDA_VISIBLE_DEVICES": self.visible}
        self.fds = tuple(fds)
        self._held = list(fds)

    def close(self) -> None:
        while self._held:
            # LOCK_UN would end the lease of the child too, as both descriptors belong to one lock.
            os.close(self._held.pop())


def lease_for(name: str, count: int | None, wait_s: float) -> Lease:
    """Lease GPUs of this host for a process; no devices where the host's GPUs are unknown. See
    `lease`.

    They are unknown without nvidia-smi and the variables.
    """
    with refused_at(name, ConfigurationError):
        found = inventory(os.environ)
        if found is None:
            return Lease()
        leased = lease(count, found, wait_s, name=name)
    if found:
        logger.info(
            "%s: GPUs %s", name, ", ".join(leased.devices) or "none (not requested, or not free)"
        )
    return leased


def lease(
    count: int | None,
    inventory: Sequence[str],
    wait_s: float = 0.0,
    folder: str | None = None,
    name: str = "",
) -> Lease:
    """Lease free GPUs.

    Args:
        count: Number of GPUs; None for one if one is free at once, else an empty lease.
        inventory: GPUs of this host, in the order in which they are tried.
        wait_s: Seconds to wait for GPUs of a job that is about to end, as after a restart. A
            warning names the processes that have them at once.
        folder: Folder of the locks, for tests.
        name: Name of the process, for the errors of others.

    Raises:
        ConfigurationError: The host has too few GPUs, or too few were free in time.
    """
    if count == 0 or not inventory:
        if count:
            raise ConfigurationError(
                f"{_gpus(count)} wanted for one process, but this host has no GPU."
                f" {_HOW_TO_NAME_THEM}"
            )
        return Lease(())
    if count is not None and count > len(inventory):
        raise ConfigurationError(
            f"{_gpus(count)} wanted for one process, but this host has only {len(inventory)}:"
            f" {', '.join(inventory)}. Ask for fewer. {_HOW_TO_NAME_THEM}"
        )
    place = _lock_folder(folder)
    deadline = time.monotonic() + wait_s
    warned = False
    while True:
        # The guard is released between two tries, so that other processes can lease and show GPUs
        # meanwhile.
        with _guard(place):
            leased = _try(1 if count is None else count, inventory, place, name)
            if leased is not None:
                return leased
            if count is None:
                return Lease(())
            if time.monotonic() >= deadline:
                raise ConfigurationError(_too_few(count, inventory, place))
            if not warned:
                logger.warning(
                    "%s: %s It waits for them, at most %g s",
                    name,
                    _too_few(count, inventory, place),
                    wait_s,
                )
                warned = True
        time.sleep(_POLL_S)


def holders(inventory: Sequence[str], folder: str | None = None) -> dict[str, str]:
    """The leased ones of these GPUs, with the process that has each."""
    place = _lock_folder(folder)
    with _guard(place):
        return _holders(inventory, place)


_HOW_TO_NAME_THEM = (
    "The TaskManager's variable AKDL_GPUS can name other GPUs, for example AKDL_GPUS=0,1."
)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _cut(names: Sequence[str]) -> Iterator[str]:
    """Yield names up to the first invalid one: CUDA ignores it and all after it (-1; Slurm says
    NoDevFiles).
    """
    for name in names:
        if not re.fullmatch(r"\d+|(GPU|MIG)-.+", name):
            return
        yield name


def _visible(known: Mapping[str, str], names: Sequence[str]) -> Iterator[str]:
    for name in _cut(names):
        if name in known:
            yield known[name]
        elif name.startswith("GPU-"):
            yield from (device for device in known.values() if device.startswith(name))
        elif name.startswith("MIG-") and known:
            # nvidia-smi does not list parts of a GPU, so the name is taken as it is given.
            yield name


def _ask(program: str) -> dict[str, str]:
    """UUIDs of nvidia-smi by index and by UUID; empty when it fails."""
    command = [program, "--query-gpu=index,uuid", "--format=csv,noheader"]
    try:
        answer = subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=QUERY_S
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        # nvidia-smi prints its errors to stdout.
        said = getattr(error, "stdout", None) or ""
        logger.warning("nvidia-smi failed, so GPUs are not used: %s %s", error, str(said).strip())
        return {}
    pairs = [_names(line) for line in answer.splitlines() if line.count(",") == 1]
    return {name: uuid for index, uuid in pairs for name in (index, uuid)}


def _lock_folder(folder: str | None) -> str:
    """Folder of the locks, of this user alone; in /tmp, as some cluster managers set a TMPDIR for
    each process.
    """
    if folder is None:
        base = "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else tempfile.gettempdir()
        folder = user_place(f"akdl_gpus_{os.geteuid()}", base)
    return private_folder(folder, "the leases of GPUs")


def _open_device(folder: str, device: str) -> int:
    return _open(folder, "gpu-" + urllib.parse.quote(device, safe=""))


def _open(folder: str, name: str) -> int:
    # The descriptor of a lease reaches the TensorFlow process by `pass_fds` alone, so other
    # children of this process hold no GPU.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(f"{folder}/{name}", flags, 0o600)


@contextlib.contextmanager
def _guard(folder: str) -> Iterator[None]:
    """Let one process choose at a time: two processes that need two of two GPUs would get one each,
    and both fail.
    """
    fd = _open(folder, "guard")
    try:
        deadline = time.monotonic() + _GUARD_S
        while not try_lock(fd):
            if time.monotonic() >= deadline:
                raise ConfigurationError(
                    f"another process has locked {folder}/guard for {_GUARD_S:g} s; is a process of"
                    " akdl suspended?"
                )
            time.sleep(_POLL_S / 10)
        yield
    finally:
        os.close(fd)


def _try(count: int, inventory: Sequence[str], folder: str, name: str) -> Lease | None:
    locked = {}
    with contextlib.ExitStack() as closing:
        for device in inventory:
            fd = _open_device(folder, device)
            if not try_lock(fd):
                os.close(fd)
                continue
            closing.callback(os.close, fd)
            locked[device] = fd
            # The error of a process that gets no GPU names the holder by this text.
            os.truncate(fd, 0)
            os.write(fd, f"{os.getpid()}{name and ', ' + name}".encode())
            # All or nothing: on the way out, the stack closes the files of a part of them.
            if len(locked) == count:
                closing.pop_all()
                return Lease(list(locked), list(locked.values()))
    return None


def _holders(inventory: Sequence[str], folder: str) -> dict[str, str]:
    """Find holders by trying each lock, for which the caller holds the guard.

    Without the guard, a lock that is held here for a moment could make the lease of another process
    fail.
    """
    taken = {}
    for device in inventory:
        fd = _open_device(folder, device)
        try:
            if not try_lock(fd):
                taken[device] = f"leased by process {os.read(fd, 200).decode() or 'unknown'}"
        finally:
            os.close(fd)
    return taken


def _too_few(count: int, inventory: Sequence[str], folder: str) -> str:
    taken = [f"{device} ({holder})" for device, holder in _holders(inventory, folder).items()]
    return (
        f"{_gpus(count)} wanted for one process, but this host has {len(inventory) - len(taken)}"
        f" free of {len(inventory)}; other processes have {', '.join(taken)}. Ask for fewer per"
        " process, run fewer processes on this host (fewer slots per TaskManager), or wait for the"
        " end of the other jobs."
    )


def _gpus(count: int) -> str:
    return "1 GPU is" if count == 1 else f"{count} GPUs are"
