"""Folders of checkpoints on this disk and in fsspec's memory."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from akdl.storage.files import FileError
from akdl.storage.training_folders import (
    CheckpointFolder,
    ask_to_stop,
    files_at,
    refuse_pattern,
    without_pattern,
)

REMOTE = "memory://akdl-checkpoints/one"


@pytest.fixture(autouse=True)
def _no_leftovers() -> Iterator[None]:
    yield
    fsspec.filesystem("memory").store.clear()


def remote(tmp_path: Path, name: str) -> CheckpointFolder:
    (tmp_path / name).mkdir(exist_ok=True)
    return CheckpointFolder(REMOTE, str(tmp_path / name))


def files(folder: CheckpointFolder) -> dict[str, str]:
    root = Path(folder.path)
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for path in root.rglob("*")
        if path.is_file()
    }


def write(folder: CheckpointFolder, **contents: str) -> None:
    for name, content in contents.items():
        path = Path(folder.path, *name.split("__"))
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)


def test_a_local_folder_is_used_as_it_is(tmp_path: Path) -> None:
    folder = CheckpointFolder(f"file://{tmp_path}/a/b", "/nowhere")
    assert folder.path == f"{tmp_path}/a/b" and Path(folder.path).is_dir()
    write(folder, one="1")
    folder.publish()
    folder.fetch()
    assert files(folder) == {"one": "1"}


def test_published_checkpoints_are_fetched_by_other_processes(tmp_path: Path) -> None:
    chief, other = remote(tmp_path, "chief"), remote(tmp_path, "other")
    other.fetch()
    write(chief, a="1", b="2", checkpoint="b", best__c="3")
    chief.publish()
    other.fetch()
    assert files(other) == files(chief)
    Path(chief.path, "a").unlink()
    write(chief, b="22")
    chief.publish()
    later = remote(tmp_path, "later")
    later.fetch()
    assert files(later) == {"b": "22", "checkpoint": "b", "best/c": "3"}


def test_only_changed_files_are_sent_and_the_pointer_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, sent = remote(tmp_path, "chief"), []
    system = fsspec.filesystem("memory")
    put = type(system).put_file
    monkeypatch.setattr(
        type(system),
        "put_file",
        lambda self, path, to, **more: sent.append(to) or put(self, path, to, **more),
    )
    write(folder, a="1", checkpoint="a", z="9")
    folder.publish()
    write(folder, b="2", checkpoint="b2")
    folder.publish()
    names = [path.rpartition("/")[2] for path in sent]
    assert names == ["a.part", "z.part", "checkpoint.part", "b.part", "checkpoint.part"]
    again = remote(tmp_path, "again")
    again.fetch()
    again.publish()
    assert len(sent) == len(names), "what was fetched is not sent back"


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_stop_is_asked_for_once_and_holds_for_one_job(tmp_path: Path, is_remote: bool) -> None:
    def opened() -> CheckpointFolder:
        return (
            remote(tmp_path, "cache")
            if is_remote
            else CheckpointFolder(str(tmp_path / "local"), "/nowhere")
        )

    chief, worker = opened(), opened()
    chief.begin(0)
    assert not worker.is_asked_to_stop()
    ask_to_stop(chief.address)
    assert chief.is_asked_to_stop() and worker.is_asked_to_stop()
    chief.note_stop()
    chief.note_stop()
    assert worker.is_asked_to_stop()
    chief.begin(1)
    assert opened().is_asked_to_stop(), "the next attempt of the same job"
    chief.publish()
    opened().fetch()
    chief.begin(0)
    assert not opened().is_asked_to_stop(), "the next job"


def test_unreachable_address_of_checkpoints_is_an_error(tmp_path: Path) -> None:
    folder = CheckpointFolder("nosuch://key:secret@bucket/x", str(tmp_path))
    with pytest.raises(
        FileError,
        match=r"^nosuch://bucket/x: it cannot be reached: ValueError: Protocol not known: nosuch",
    ):
        folder.fetch()


def test_files_at_an_address_change_with_a_checkpoint(tmp_path: Path) -> None:
    assert files_at(REMOTE) == files_at(str(tmp_path / "own")) == {}
    folder = remote(tmp_path, "chief")
    write(folder, one="1", a__two="2")
    folder.publish()
    assert set(files_at(REMOTE)) == set(files_at(folder.path)) == {"one", "a/two"}
    before = files_at(folder.path), files_at(REMOTE)
    write(folder, one="11")
    folder.publish()
    assert (
        files_at(folder.path)["one"] != before[0]["one"]
        and files_at(REMOTE)["one"] != before[1]["one"]
    )
    assert (
        files_at(folder.path)["a/two"] == before[0]["a/two"]
        and files_at(REMOTE)["a/two"] == before[1]["a/two"]
    )


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("/a/run[1]", r"^/a/run\[1\]: TensorFlow reads '\[' in the path of a file as a pattern"),
        ("file:///a/run*", r"^/a/run\*: TensorFlow reads '\*'"),
        ("/a/run?", "TensorFlow reads '[?]'"),
        ("/a/run\\1", r"TensorFlow reads '\\\\'"),
        ("s3://bucket/run[1]", r"^s3://bucket/run\[1\]: fsspec reads '\['"),
        ("s3://key:secret@bucket/run*", r"^s3://bucket/run\*: fsspec reads '\*'"),
    ],
)
def test_paths_that_tensorflow_reads_as_patterns_are_refused(address: str, message: str) -> None:
    with pytest.raises(FileError, match=message):
        refuse_pattern(address)


@pytest.mark.parametrize(
    "address", ["/a/run1", "file:///a/b", "s3://bucket/run?", "s3://bucket/a\\b"]
)
def test_paths_without_patterns_are_accepted(address: str) -> None:
    refuse_pattern(address)


def test_a_folder_with_a_pattern_gets_a_link_for_a_while(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "run[1]"
    folder.mkdir()
    with without_pattern(str(folder)) as path:
        assert "[" not in path and os.path.samefile(path, folder)
    assert not os.path.lexists(os.path.dirname(path)) and folder.is_dir()
    with without_pattern(str(tmp_path)) as path:
        assert path == str(tmp_path)
