"""Work folders: what is in them, and when they go."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from bridge.exceptions import ConfigurationError
from bridge.host.work_folder import WorkFolder
from bridge.schema import Schema
from bridge.settings import GroupSettings, UserFile
from tests.support.leftovers import wait_until

SETTINGS = GroupSettings(
    operator="TestOp", kind="batch", num_workers=1, num_ps=0, input_schema=Schema.parse("x INT"),
    output_schema=Schema.parse("x INT"), main_script="main.py",
    user_files=(UserFile("main.py", b"# main"), UserFile("data/words.txt", b"words")),
)  # fmt: skip


def test_work_folder_holds_user_files_and_akdl_and_is_removed_as_a_whole() -> None:
    folder = WorkFolder(SETTINGS.user_files)
    try:
        with open(os.path.join(folder.path, "data", "words.txt"), "rb") as file:
            assert file.read() == b"words"
        assert os.listdir(folder.library) == ["akdl"], (
            "nothing else of this environment is on the process's path"
        )
        assert os.path.isfile(os.path.join(folder.library, "akdl", "entry.py"))
        assert os.stat(folder.path).st_mode & 0o077 == 0, "nobody else may look into it"
    finally:
        folder.remove()
        folder.remove()
    assert not os.path.exists(folder.path)


@pytest.mark.parametrize("place", ["a/../b", ".akdl/tmp"])
def test_only_the_paths_of_user_files_count(place: str, tmp_path: pathlib.Path) -> None:
    for name in ("a", "b", ".akdl/tmp"):
        (tmp_path / name).mkdir(parents=True)
    folder = WorkFolder(SETTINGS.user_files, place=f"{tmp_path}/{place}")
    try:
        assert {"data", "main.py"} < set(os.listdir(folder.path))
        for path in ("../x", f"{tmp_path}/x", ".akdl/lib/x", "a/../../x"):
            with pytest.raises(ConfigurationError, match="would be outside of the work folder"):
                folder.add([UserFile(path, b"")])
    finally:
        folder.remove()


OWNER = """
import subprocess, sys
from bridge.host.work_folder import WorkFolder
folder = WorkFolder(())
print(folder.path, flush=True)
if sys.argv[1:]:
    subprocess.run(["cat"], pass_fds=folder.fds, start_new_session=True)  # ends when the test closes its input
else:
    sys.stdin.read()
"""


@pytest.mark.process
@pytest.mark.parametrize("has_process", [False, True])
def test_work_folder_of_a_killed_owner_is_removed_when_its_process_ends(
    has_process: bool,
) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, *["with a process"] * has_process],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with owner:
        path = owner.stdout.readline().strip()
        if has_process:
            owner.stdin.write("x")
            owner.stdin.flush()
            assert owner.stdout.read(1) == "x", "the process runs"
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        if has_process:
            assert os.path.isdir(path), "it stays as long as the process lives"
            with open(os.path.join(path, "late"), "w"):
                pass
            owner.stdin.close()
        wait_until(lambda: not os.path.exists(path), "the folder is gone")
