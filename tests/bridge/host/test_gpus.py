"""Leases of GPUs, with a made-up inventory: who gets which, for how long, and what is said when
there are too few.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.exceptions import ConfigurationError
from bridge.host import gpus
from tests.support.leftovers import DEADLINE_S, wait_until

ROOT = pathlib.Path(__file__).parents[3]
UUIDS = ("GPU-aaaa-1", "GPU-bbbb-2", "GPU-cccc-3")
HOLDER = """
import subprocess, sys
from bridge.host.gpus import lease
leased = lease(None, sys.argv[3:], folder=sys.argv[1])
if sys.argv[2] == "alone":
    child = None
else:
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    child = subprocess.Popen(command, pass_fds=leased.fds, start_new_session=True)
if sys.argv[2] == "leaves it to the child":
    leased.close()
print(leased.visible or "none", child.pid if child else 0, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> str:
    return str(tmp_path / "leases")


@contextlib.contextmanager
def leased(*given: Any, **options: Any) -> Iterator[gpus.Lease]:
    """A lease that ends with the block."""
    lease = gpus.lease(*given, **options)
    try:
        yield lease
    finally:
        lease.close()


class Holder:
    """A process that leases one GPU if it can."""

    def __init__(self, folder: str, way: str, inventory: str) -> None:
        command = [sys.executable, "-c", HOLDER, folder, way, *inventory]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.child = 0

    def __enter__(self) -> Holder:
        return self

    def said(self) -> Any:
        """Wait until it has its lease; return what it got."""
        device, child = self.process.stdout.readline().split()
        self.child = int(child)
        return device

    def kill_child(self) -> None:
        if self.child:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.child, signal.SIGKILL)

    def __exit__(self, *error: Any) -> None:
        self.process.kill()
        self.process.communicate()
        self.kill_child()


def is_free(folder: str, *inventory: str) -> bool:
    try:
        gpus.lease(len(inventory), inventory, folder=folder).close()
    except ConfigurationError:
        return False
    return True


@pytest.mark.process
def test_two_processes_never_lease_the_same_gpu(folder: str) -> None:
    with contextlib.ExitStack() as stack:
        holders = [stack.enter_context(Holder(folder, "alone", "0123")) for _ in range(6)]
        assert sorted(holder.said() for holder in holders) == ["0", "1", "2", "3", "none", "none"]
    wait_until(lambda: is_free(folder, *"0123"), "all are free again")


@pytest.mark.process
@pytest.mark.parametrize("way", ["both hold it", "leaves it to the child"])
def test_a_lease_lasts_as_long_as_the_child_whatever_becomes_of_the_parent(
    folder: str, way: str
) -> None:
    with Holder(folder, way, "0") as holder:
        assert holder.said() == "0"
        assert not is_free(folder, "0")
        holder.process.kill()
        holder.process.wait(DEADLINE_S)
        assert not is_free(folder, "0")
        holder.kill_child()
        wait_until(lambda: is_free(folder, "0"), "the GPU is free again")


@pytest.mark.process
def test_a_lease_lasts_as_long_as_the_parent_when_the_child_has_ended(folder: str) -> None:
    with Holder(folder, "both hold it", "0") as holder:
        assert holder.said() == "0"
        holder.kill_child()
        assert not is_free(folder, "0")
        holder.process.kill()
        wait_until(lambda: is_free(folder, "0"), "the GPU is free again")


@pytest.mark.process
def test_unrelated_child_processes_do_not_hold_a_lease(folder: str) -> None:
    leased = gpus.lease(1, ["0"], folder=folder)
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        close_fds=False,
    )
    leased.close()
    wait_until(
        lambda: is_free(folder, "0"),
        "its copies are closed, which the start of a program does one by one",
    )
    child.communicate(timeout=DEADLINE_S)


def test_threads_of_one_process_never_lease_the_same_gpu(folder: str) -> None:
    """Of four that want two of three at once, exactly one gets them, in any order of events."""
    for _ in range(20):
        together, got = threading.Barrier(4), []

        def take(together: threading.Barrier = together, got: list[Any] = got) -> None:
            together.wait()
            with contextlib.suppress(ConfigurationError):
                got.append(gpus.lease(2, UUIDS, folder=folder))

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (winner,) = got
        winner.close()


def test_lease_waits_for_a_gpu_that_becomes_free(folder: str) -> None:
    first = gpus.lease(1, ["0"], folder=folder)
    timer = threading.Timer(0.2, first.close)
    timer.start()
    with leased(1, ["0"], wait_s=20, folder=folder) as second:
        assert second.devices == ("0",)
    timer.join()


def test_lease_gives_as_many_gpus_as_asked_for(folder: str) -> None:
    with leased(None, UUIDS, folder=folder) as one, leased(2, UUIDS, folder=folder) as two:
        assert (one.visible, two.visible) == ("GPU-aaaa-1", "GPU-bbbb-2,GPU-cccc-3")
        assert len(two.fds) == 2
        with leased(None, UUIDS, folder=folder) as none, leased(0, UUIDS, folder=folder) as zero:
            assert none.visible == zero.visible == "" and none.fds == zero.fds == ()
    two.close()  # a second time
    assert is_free(folder, *UUIDS)


def test_host_without_gpus_leases_none_and_refuses_a_number(folder: str) -> None:
    assert gpus.lease(None, [], folder=folder).devices == ()
    with pytest.raises(
        ConfigurationError,
        match="2 GPUs are wanted for one process, but this host has no GPU. The TaskManager's variable",
    ):
        gpus.lease(2, [], folder=folder)


@pytest.mark.fault("hosts", "Too few GPUs are an error that says how many there are")
def test_lease_of_too_many_gpus_names_those_there_are_and_their_holders(folder: str) -> None:
    with pytest.raises(
        ConfigurationError,
        match="3 GPUs are wanted for one process, but this host has only 2: 0, 1. Ask",
    ):
        gpus.lease(3, ["0", "1"], folder=folder)
    with leased(1, ["0", "1"], folder=folder):
        with pytest.raises(ConfigurationError) as raised:
            gpus.lease(2, ["0", "1"], folder=folder)
        assert is_free(folder, "1"), "a lease that fails keeps nothing"
    assert (
        "2 GPUs are wanted for one process, but this host has 1 free of 2; other processes have 0"
        in str(raised.value)
    )
    assert f"0 (leased by process {os.getpid()})" in str(raised.value)


@pytest.mark.parametrize("name", ["MIG-GPU-aaaa/1/0", "..", "guard"])
def test_gpus_with_names_unfit_for_files_are_leased(folder: str, name: str) -> None:
    with leased(1, [name], folder=folder) as lease:
        assert lease.visible == name
        assert not is_free(folder, name)


@pytest.mark.fault("security", "A folder for GPU leases that others can write to is refused")
def test_a_folder_that_others_can_write_to_is_refused(tmp_path: pathlib.Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "open")
    for name in ("open", "link"):
        with pytest.raises(
            ConfigurationError,
            match=f"{name}, for the leases of GPUs, is not a folder that only this user can access",
        ):
            gpus.lease(1, ["0"], folder=str(tmp_path / name))


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, None),
        ({"AKDL_GPUS": ""}, []),
        ({"AKDL_GPUS": "0,1"}, ["0", "1"]),
        ({"AKDL_GPUS": " 1, 0,1,"}, ["1", "0"]),
        ({"AKDL_GPUS": "GPU-aaaa-1"}, ["GPU-aaaa-1"]),
        ({"AKDL_GPUS": "guard,.."}, ["guard", ".."]),
        ({"AKDL_GPUS": "0,1,2", "CUDA_VISIBLE_DEVICES": "2,0,7"}, ["2", "0"]),
        ({"AKDL_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": ""}, []),
        ({"AKDL_GPUS": "0,1", "CUDA_VISIBLE_DEVICES": "3"}, []),
        ({"CUDA_VISIBLE_DEVICES": "3,1"}, ["3", "1"]),
        ({"CUDA_VISIBLE_DEVICES": ""}, []),
        ({"CUDA_VISIBLE_DEVICES": "0,-1,1"}, ["0"]),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, []),
    ],
)
def test_inventory_without_nvidia_smi_follows_the_variables(
    environment: dict[str, str], found: list[str] | None
) -> None:
    assert gpus.inventory({"PATH": "/does/not/exist", **environment}) == found


@pytest.mark.parametrize("text", ["0;1", "0 1", "all of them"])
def test_wrong_list_of_gpus_is_refused(text: str) -> None:
    with pytest.raises(
        ConfigurationError,
        match="AKDL_GPUS: expected indexes or UUIDs of GPUs separated by commas, got",
    ):
        gpus.inventory({"AKDL_GPUS": text})


@pytest.mark.process
@pytest.mark.parametrize(
    ("answer", "visible", "found"),
    [
        ("echo '0, GPU-aaaa-1'; echo '1, GPU-bbbb-2'", None, ["GPU-aaaa-1", "GPU-bbbb-2"]),
        ("echo '0, GPU-aaaa-1'; echo '1, GPU-bbbb-2'", "1", ["GPU-bbbb-2"]),
        ("echo '0, GPU-aaaa-1'; echo '1, GPU-bbbb-2'", "GPU-b,0", ["GPU-bbbb-2", "GPU-aaaa-1"]),
        ("echo '0, GPU-aaaa-1'", "MIG-dddd-4", ["MIG-dddd-4"]),
        ("echo '0, GPU-aaaa-1'", "", []),
        ("echo 'No devices were found'", None, []),
        ("echo 'Failed to initialize NVML'; exit 9", None, []),
    ],
)
def test_inventory_of_nvidia_smi_is_limited_to_visible_devices(
    tmp_path: pathlib.Path, answer: str, visible: str | None, found: list[str]
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    environment = (
        {"PATH": str(tmp_path)}
        if visible is None
        else {"PATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": visible}
    )
    assert gpus.inventory(environment) == found


@pytest.mark.process
@pytest.mark.fault("hosts", "A job starts without GPUs when nvidia-smi hangs")
def test_an_nvidia_smi_that_hangs_is_given_up(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    monkeypatch.setattr(gpus, "QUERY_S", 0.2)
    assert gpus.inventory({"PATH": str(tmp_path)}) == []
