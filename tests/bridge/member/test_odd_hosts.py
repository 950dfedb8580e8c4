"""A script on hosts that are odd: no HOME, a tiny /dev/shm, PID 1, no more processes, a clock that
jumps, a slow disk.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from bridge.group.addresses import Address
from bridge.member.member import Member
from bridge.schema import Schema
from bridge.settings import GroupSettings, UserFile
from tests.support.deadline import DEADLINE_S
from tests.support.leftovers import task_processes, wait_until, work_folders
from tests.support.small_disks import small_disk

pytestmark = pytest.mark.process
ROOT = pathlib.Path(__file__).parents[3]
INPUT, OUTPUT = Schema.parse("id BIGINT NOT NULL"), Schema.parse("rows BIGINT")
COUNT = (
    "def main(config):\n    config.output_writer.write_batch({'rows': [config.dataset_length]})\n"
)
SLOW = """
import pathlib, time
from akdl.rows import chunk_file

write = chunk_file.write_at

def later(*arguments):
    time.sleep(0.05)
    write(*arguments)

chunk_file.write_at = later
pathlib.Path({file!r}).touch()

"""
# Arguments: the outcome, limit on processes, user id.
ALONE = """
import json, os, resource, sys, time
from tests.children import lone_members
outcome, processes, user = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if processes:
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    os.setuid(user)  # there is no limit for root
try:
    found = lone_members.be_member(script=sys.argv[4], index=0, addresses=[["127.0.0.1", 1, 2]], rows=5, lost_s=30.0)
except Exception as error:
    found = {"error": str(error)}

def seen():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]

deadline = time.monotonic() + 20.0
while os.getpid() == 1 and seen() != [1] and time.monotonic() < deadline:
    time.sleep(0.01)  # what sweeps the folder away outlives the member by some milliseconds
with open(outcome, "w") as file:
    json.dump([os.getpid(), found, seen()], file)
"""


@contextmanager
def started(script: str = COUNT, **changes: Any) -> Iterator[Member]:
    settings = GroupSettings(
        operator="TestOp", kind="batch", num_workers=1, num_ps=0, input_schema=INPUT, output_schema=OUTPUT,
        main_script="script.py", user_files=(UserFile("script.py", script.encode()),), **changes,
    )  # fmt: skip
    member = Member(settings, "group", 0, 0, lambda: None)
    try:
        member.set_cluster([Address("127.0.0.1", 1, 2)])
        yield member
    finally:
        member.stop()


def counted(member: Member, chunks: int = 1) -> bool:
    """Whether the script counts all rows."""
    batch = pa.record_batch([pa.array(range(1000), pa.int64())], names=["id"])
    messages = [message for _ in range(chunks) for message in member.feed(batch)] + list(
        member.finish()
    )
    return [message.count for message in messages] == [1] and member.rows_done == 1000 * chunks


def run_alone(wrapper: list[str], outcome: pathlib.Path, limit: int = 0, user: int = 0) -> Any:
    """Run a member in a program of its own, and return its process id, its outcome, and the
    processes that it sees then.
    """
    if not sys.platform.startswith("linux") or os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root on Linux, and the program unshare")
    command = [*wrapper, sys.executable, "-c", ALONE, str(outcome), str(limit), str(user), COUNT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=4 * DEADLINE_S)
    if done.returncode and "Operation not permitted" in done.stderr:
        pytest.skip(f"this machine forbids it: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return json.loads(outcome.read_text())


@pytest.mark.fault("hosts", "A host without HOME runs scripts")
def test_host_without_home_runs_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    with started("import os\nassert 'HOME' not in os.environ\n" + COUNT) as member:
        assert counted(member)


@pytest.mark.fault("hosts", "Folders are private whatever the umask")
def test_folders_and_files_are_private_whatever_the_umask(monkeypatch: pytest.MonkeyPatch) -> None:
    before, known = os.umask(0), work_folders()
    try:
        with started("import time\n" + COUNT + "    time.sleep(600)\n") as member:
            list(member.feed(pa.record_batch([pa.array([1], pa.int64())], names=["id"])))
            (folder,) = work_folders() - known
            files = pathlib.Path(folder, ".akdl")
            wait_until(lambda: (files / "dataset.columns").exists(), "rows are there")
            found = [
                pathlib.Path(folder),
                pathlib.Path(folder, "script.py"),
                files / "dataset.columns",
            ]
            assert [stat.S_IMODE(path.stat().st_mode) for path in found] == [0o700, 0o600, 0o600]
    finally:
        os.umask(before)


@pytest.mark.fault("security")
def test_a_second_user_of_the_host_reads_nothing() -> None:
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("only root on Linux may start a program as another user")

    def read(path: str) -> subprocess.CompletedProcess[bytes]:
        # `user=` would fork this process, in which the threads of gRPC can end the child by a fault
        # of memory.
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        return subprocess.run([*other, "cat", path], cwd="/", capture_output=True)

    known = work_folders()
    with started(
        "import time\n" + COUNT + "    time.sleep(600)\n",
        token="a secret",
        env_vars=("PASSWORD=hidden",),
    ) as member:
        list(member.feed(pa.record_batch([pa.array([1], pa.int64())], names=["id"])))
        (folder,) = work_folders() - known
        columns = f"{folder}/.akdl/dataset.columns"
        wait_until(lambda: os.path.exists(columns), "rows are there")
        (process,) = task_processes()
        for path in (
            columns,
            f"{folder}/script.py",
            f"{folder}/.akdl/bridge.sock",
            f"/proc/{process.pid}/environ",
        ):
            assert os.path.exists(path) and b"ermission denied" in read(path).stderr
        command = read(f"/proc/{process.pid}/cmdline").stdout
        assert b"akdl.entry" in command and b"secret" not in command and b"hidden" not in command


@pytest.mark.fault("hosts", "A read-only current folder does no harm")
def test_read_only_current_folder_does_no_harm(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small_disk(tmp_path / "read-only", "ro") as folder:
        monkeypatch.chdir(folder)
        with started() as member:
            assert counted(member)
        monkeypatch.undo()


@pytest.mark.fault("hosts", "A clock that jumps by days does no harm")
def test_jumping_clock_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that waits looks at it; the sleeps of the script take longer than stallTimeout would
    by that clock.
    """
    jumps = itertools.cycle([0.0, -86400.0, 86400.0])
    monkeypatch.setattr(time, "time", lambda true=time.time: true() + next(jumps))
    with started(
        "import time\ntime.sleep(2)\n" + COUNT, stall_timeout_s=60.0, start_timeout_s=60.0
    ) as member:
        assert counted(member)


@pytest.mark.fault("hosts")
def test_a_slow_disk_slows_the_source_down(tmp_path: pathlib.Path) -> None:
    with started(SLOW.format(file=str(tmp_path / "slow")) + COUNT, queue_bytes=20_000) as member:
        wait_until((tmp_path / "slow").exists, "each write takes its time")
        began = time.monotonic()
        assert counted(member, chunks=20)
        assert time.monotonic() - began >= 20 * 0.05


@pytest.mark.fault("hosts", "A /dev/shm of 4 KB suffices")
def test_tiny_dev_shm_suffices(tmp_path: pathlib.Path) -> None:
    mount = 'mount -t tmpfs -o size=4k tmpfs /dev/shm && exec "$@"'
    _, outcome, _ = run_alone(["unshare", "--mount", "sh", "-c", mount, "sh"], tmp_path / "outcome")
    assert outcome == [5]


@pytest.mark.fault("hosts", "A Python worker that is process 1 of a container leaves no zombies")
def test_python_worker_as_process_1_leaves_no_zombies(tmp_path: pathlib.Path) -> None:
    """Nobody else reaps what the script leaves."""
    pid, outcome, left = run_alone(
        ["unshare", "--pid", "--fork", "--mount-proc"], tmp_path / "outcome"
    )
    assert (pid, outcome) == (1, [5])
    assert left == [1]


@pytest.mark.fault("hosts", "A host that allows no more processes is an error that names ulimit -u")
def test_host_without_free_processes_is_an_error_that_names_ulimit(tmp_path: pathlib.Path) -> None:
    (tmp_path / "own").mkdir()
    os.chmod(tmp_path / "own", 0o777)
    for folder in (tmp_path, *tmp_path.parents):
        if (
            os.stat(folder).st_uid == os.geteuid()
            and folder.is_relative_to("/tmp")
            and folder != pathlib.Path("/tmp")
        ):
            os.chmod(folder, 0o755)
    _, outcome, _ = run_alone(
        ["env", f"TMPDIR={tmp_path}/own"], tmp_path / "own" / "outcome", limit=1, user=65534
    )
    assert (
        "no process can be started on this host: Resource temporarily unavailable"
        in outcome["error"]
    )
