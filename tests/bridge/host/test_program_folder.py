"""Files that wait to be used by jobs: their names follow from their content."""

from __future__ import annotations

import hashlib
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest

from bridge.host.program_folder import named_by_content, program_folder, scratch_folder
from tests.support.leftovers import DEADLINE_S


@pytest.fixture
def write(tmp_path: pathlib.Path) -> Callable[..., str]:
    """Write files of the user that no other test has written."""

    def write(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(f"{tmp_path} {text}")
        return str(path)

    return write


def test_a_program_has_one_folder() -> None:
    assert program_folder() == program_folder()
    assert os.path.isdir(program_folder())


def test_scratch_folder_is_removed_at_the_end_of_its_block() -> None:
    with pytest.raises(KeyError), scratch_folder("rows_") as folder:
        pathlib.Path(folder, "file").touch()
        assert os.path.dirname(folder) == program_folder() and os.path.basename(folder).startswith(
            "rows_"
        )
        raise KeyError
    assert not os.path.exists(folder)


def test_program_folder_is_removed_with_the_program() -> None:
    code = "import os; from bridge.host.program_folder import program_folder as f; print(f(), os.path.isdir(f()))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
    )
    folder, existed = done.stdout.split()
    assert existed == "True" and not os.path.exists(folder)


def test_a_users_file_is_linked_under_a_name_of_its_content(write: Callable[..., str]) -> None:
    path = write("data.bin", "one")
    named, sha256 = named_by_content(path, "kind")
    with open(path, "rb") as file:
        assert sha256 == hashlib.sha256(file.read()).hexdigest()
    assert os.path.dirname(named) == program_folder()
    assert os.path.basename(named) == f"akdl_kind_{sha256[:32]}", (
        "without a suffix: Flink would unpack it"
    )
    assert os.path.realpath(named) == os.path.realpath(path)


def test_equal_files_have_one_name_and_the_latest_path(write: Callable[..., str]) -> None:
    first, again = write("first", "same"), write("again", "same")
    named = named_by_content(first, "kind")
    assert named_by_content(first, "kind") == named
    os.remove(first)  # the name is not left to a file that has gone
    assert named_by_content(again, "kind") == named
    assert os.path.realpath(named[0]) == os.path.realpath(again)


def test_a_changed_file_gets_another_name(write: Callable[..., str]) -> None:
    before = named_by_content(write("data", "before"), "kind")
    after = named_by_content(write("data", "after"), "kind")
    assert before[0] != after[0] and before[1] != after[1]


def test_a_relative_path_is_linked_as_an_absolute_one(
    write: Callable[..., str], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("data", "relative")
    monkeypatch.chdir(tmp_path)
    named, _ = named_by_content("data", "kind")
    assert os.readlink(named) == path


def test_files_made_by_the_program_are_moved_to_their_name(write: Callable[..., str]) -> None:
    made = os.path.join(program_folder(), "made")
    os.rename(write("made", "moved"), made)
    named, _ = named_by_content(made, "kind")
    assert os.path.isfile(named) and not os.path.islink(named) and not os.path.exists(made)
