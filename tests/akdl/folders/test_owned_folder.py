"""Folders that go at the end of their program."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
from akdl.folders.owned_folder import OwnedFolder

folder = OwnedFolder("akdl_local_", sys.argv[1])
folder.remove_at_exit()
child = os.fork()
if child == 0:
    sys.exit()
os.waitpid(child, 0)
print(os.path.exists(folder.path))
"""


@pytest.mark.process
def test_a_folder_goes_with_its_program_and_not_with_a_forked_one(tmp_path: pathlib.Path) -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True)
    assert run.stdout == "True\n", run.stderr
    assert os.listdir(tmp_path) == []
