"""What killed processes leave goes at the next start, and what is used stays."""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
import sys

import psutil
import pytest

from akdl.storage.locked_folder import LOCK
from bridge.host.places import model_place
from bridge.host.process_folder import ProcessFolder
from bridge.host.program_folder import sweep
from tests.support.leftovers import is_running, wait_until

pytestmark = pytest.mark.process

OWNER = """
import subprocess, sys
from bridge.host.work_folder import WorkFolder
from operators.local_predictor import LocalPredictor
from bridge.host.program_folder import program_folder
from akdl.storage.locked_folder import OwnedFolder
folders = [WorkFolder(()).path, program_folder(), OwnedFolder("akdl_local_").path]
print(*folders, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def temporary(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.fault("hosts", "Work folders of killed processes are removed at the next start")
def test_folders_of_a_killed_program_are_removed_at_the_next_start(
    temporary: pathlib.Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as owner:
        assert owner.stdout is not None
        folders = owner.stdout.readline().split()
        sweep()
        assert len(folders) == 3 and all(map(os.path.isdir, folders)), "they are used"
        remover = next(
            each for each in psutil.Process(owner.pid).children() if folders[0] in each.cmdline()
        )
        remover.kill()
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    wait_until(lambda: not is_running(remover.pid), "its remover has ended")
    assert all(map(os.path.isdir, folders))
    sweep()
    assert not any(map(os.path.exists, folders))


def test_sweep_keeps_folders_and_links_that_are_not_ours(temporary: pathlib.Path) -> None:
    """A folder without a lock, one of another host, and a link in place of a lock."""
    for name, host in [
        ("akdl-without", None),
        ("akdl-elsewhere", "another-host"),
        ("akdl-link", None),
        ("other", "x"),
    ]:
        (temporary / name).mkdir()
        if host is not None:
            (temporary / name / ".akdl-lock").write_text(host)
    (temporary / "precious").write_text(os.uname().nodename)
    (temporary / "akdl-link" / ".akdl-lock").symlink_to(temporary / "precious")
    (temporary / "akdl-file").write_text("no folder")
    before = sorted(path.name for path in temporary.iterdir())
    sweep()
    assert [
        path.name
        for path in sorted(temporary.iterdir())
        if not path.name.startswith(("akdl_models", "akdl_envs"))
    ] == before


@pytest.mark.fault(
    "security", "Folders that another user made first do not keep scripts from starting"
)
def test_folder_of_another_user_does_not_stop_a_start(
    temporary: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another user may make folders of these names first, in a place that all share, and there is
    no other place.
    """
    (temporary / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(temporary / "file"))
    for name in ("akdl_envs", "akdl_models"):
        (temporary / f"{name}_{os.geteuid()}").mkdir(mode=0o700)
        (temporary / f"{name}_{os.geteuid()}").chmod(0o777)
    with caplog.at_level("INFO"):
        sweep()
    assert caplog.text.count("is not a folder that only this user can access") == 2


@pytest.mark.fault("hosts", "The folder of a killed model process is removed at the next start")
def test_folder_of_a_killed_model_process_is_removed_at_the_next_start(
    temporary: pathlib.Path,
) -> None:
    place = pathlib.Path(model_place(), "group")
    place.mkdir(0o700)
    (place / LOCK).write_text(socket.gethostname())
    os.mkfifo(place / "alive")
    reader = subprocess.Popen(["cat", place / "alive"], stdout=subprocess.DEVNULL)
    writer = os.open(place / "alive", os.O_WRONLY)
    assert ProcessFolder("group").has_process()
    sweep()
    assert place.is_dir(), "its process runs"
    reader.kill()
    reader.wait()
    os.close(writer)
    sweep()
    wait_until(lambda: not place.exists(), "the folder is gone")


def test_sweep_creates_no_folders(temporary: pathlib.Path) -> None:
    sweep()
    assert list(temporary.iterdir()) == []
