"""Files become visible together, and replace only what sinks have written."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Sequence

import fsspec
import pyarrow.fs
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from bridge.exceptions import BridgeError, ConfigurationError
from bridge.files.listing import list_files
from bridge.files.publishing import FileSink, abandon, check_target, file_system, files_in, publish
from bridge.files.writing import PartFiles
from tests.bridge.files.attempts import files_of, found_ids, ids, listed, sink_of, written


def test_publication_with_a_lost_file_is_refused_and_changes_nothing(root: str) -> None:
    address = f"{root}/out/"
    first, second = sink_of(address, token="11111111"), sink_of(address, token="22222222")
    publish(first, written(PartFiles(first, 0, 1), ids(1)))
    files = {**written(PartFiles(second, 0, 2), ids(2)), "part-00001-22222222-0.parquet": [1, 100]}
    with pytest.raises(
        BridgeError,
        match=r"^Sink: expected 'part-00001.* 1 other files .* on the host .*that all hosts share",
    ):
        publish(second, files)
    assert found_ids(address) == [1]
    abandon(second)
    assert found_ids(address) == [1] and not [name for name in files_of(root) if "22222222" in name]


def test_new_files_replace_the_earlier_ones(root: str) -> None:
    address = f"{root}/out/"
    for token, number in (("11111111", 1), ("22222222", 2)):
        sink = sink_of(address, token=token)
        files = written(PartFiles(sink, 0, 1), ids(number))
        publish(sink, files)
        publish(sink, files)  # by a committer whose first attempt died after it
        assert found_ids(address) == [number]
    assert len([name for name in files_of(root) if "part-" in name]) == 1
    killed = sink_of(address, token="33333333")
    written(PartFiles(killed, 0, 1), ids(3))
    if root.startswith("/"):
        os.utime(f"{root}/out.33333333.incomplete", (0, 0))
    publish(
        sink_of(address, token="44444444"),
        written(PartFiles(sink_of(address, token="44444444"), 0, 1), ids(2)),
    )
    assert not [name for name in files_of(root) if "33333333" in name], (
        "what a killed program has left goes with the next files"
    )
    abandon(sink)
    assert found_ids(address) == [2]


@pytest.mark.parametrize("next_", ["restart", "abandon", "another job"])
def test_earlier_files_go_when_an_attempt_died_before_it_removed_them(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, next_: str
) -> None:
    class Dying(pyarrow.fs.LocalFileSystem):  # type: ignore[misc]
        def delete_dir(self, path: str) -> None:
            raise KeyboardInterrupt

    first, second = (sink_of(f"{tmp_path}/out/", token=str(number) * 8) for number in (1, 2))
    publish(first, written(PartFiles(first, 0, 1), ids(1)))
    files = written(PartFiles(second, 0, 1), ids(2))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("bridge.files.publishing.LocalFileSystem", Dying)
        publish(second, files)
    (left,) = set(os.listdir(tmp_path)) - {"out"}
    if next_ == "restart":
        publish(second, files)
    elif next_ == "abandon":
        abandon(second)
    else:
        os.utime(tmp_path / left, (0, 0))
        publish(first, written(PartFiles(first, 0, 1), ids(2)))
    assert os.listdir(tmp_path) == ["out"] and found_ids(f"{tmp_path}/out/") == [2]


@pytest.mark.fault("data", "A sink never replaces a folder with files of another program")
def test_targets_that_are_refused(root: str) -> None:
    folder, single = sink_of(f"{root}/out/"), sink_of(f"{root}/out", is_single=True)
    for sink in (folder, single):
        check_target(sink, False)
    publish(folder, written(PartFiles(folder, 0, 1), ids(1)))
    check_target(folder, True)
    refusals: Sequence[tuple[FileSink, bool, str]] = (
        (folder, False, r"out/? exists already; setOverwriteSink\(True\) replaces it"),
        (single, True, "out exists already and is a folder; expected the path of a file"),
        (
            sink_of(f"{root}/out/{listed(f'{root}/out/')[0]}/"),
            True,
            "exists already and is a file; expected the path of a folder",
        ),
    )
    for sink, overwrite, message in refusals:
        with pytest.raises(ConfigurationError, match=f"^Sink: filePath: .*{message}"):
            check_target(sink, overwrite)
    system, path = file_system(f"{root}/out")
    for name in (
        "notes.txt",
        "_SUCCESS",
        ".hidden",
        "part-0-0",
        "part-00000-1234-c000.snappy.parquet",
        f"part-00000-{'0' * 8}-0.parquet",
        "_c1",
    ):
        with system.open_output_stream(f"{path}/{name}") as file:
            file.write(b"mine")
        with pytest.raises(
            ConfigurationError,
            match=f"has the file .*/{name}, which no sink has written: choose another folder",
        ):
            check_target(folder, True)
        system.delete_file(f"{path}/{name}")
    check_target(sink_of(f"{root}/out/", appends=True), True)


def test_folder_whose_first_file_appears_during_listing_is_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    storage = fsspec.filesystem("memory")
    answers = iter([False])
    monkeypatch.setattr(MemoryFileSystem, "isdir", lambda self, path: next(answers, True))
    storage.pipe("/first_file/part-0", b"rows")
    try:
        files = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(storage))
        assert [path.strip("/") for path in files_in(files, "/first_file")] == ["first_file/part-0"]
    finally:
        storage.rm("/first_file", recursive=True)


FOREIGN = {
    "part-00000-spark.parquet": b"Spark",
    "sub/part-1.parquet": b"Flink",
    "_common_metadata": b"Dask",
    "_cache-5-0badcafe": b"a name with the token, not of the form of a record",
    f"part-00000-{'1' * 16}-0.parquet": b"an endless stream",
}


@pytest.mark.fault(
    "data", "A failed job with overwriteSink removes nothing that was in an object store"
)
@pytest.mark.parametrize(
    "manifest",
    [None, {"files": {"part-00000-spark.parquet": 3}}, ["x"], {"files": None}, "no JSON"],
)
def test_failed_job_removes_only_its_own_files_from_a_storage(manifest: object) -> None:
    memory = fsspec.filesystem("memory")
    before = (
        dict(FOREIGN)
        if manifest is None
        else {**FOREIGN, "_manifest.json": json.dumps(manifest).encode()}
    )
    try:
        for name, content in before.items():
            memory.pipe(f"/failed/out/{name}", content)
        sink = sink_of("memory://failed/out/")
        files = PartFiles(sink, 0, 1)
        files.start(-1)
        files.write(ids(1))
        files.checkpoint(1)
        files.close()
        abandon(sink)
        assert {
            name: memory.cat(path) for name, path in files_of("memory://failed/out").items()
        } == before
    finally:
        memory.rm("/failed", recursive=True)


@pytest.mark.fault("data", "A source finds no files of the first job of a folder before its end")
def test_files_of_the_first_job_of_a_folder_are_hidden_until_its_end(root: str) -> None:
    def unfinished(token: str) -> PartFiles:
        files = PartFiles(sink_of(f"{root}/out/", token=token), 0, 1)
        files.start(-1)
        files.write(ids(1))
        files.checkpoint(1)
        return files

    def read() -> list[str]:
        return [file.path for file in list_files("Source", [f"{root}/*"], may_be_empty=True)]

    killed = unfinished("11111111")
    assert read() == []
    failed = unfinished("22222222")
    failed.close()
    abandon(sink_of(f"{root}/out/", token="22222222"))
    assert read() == [] and any("part-" in name for name in files_of(root))
    killed.close()
    abandon(sink_of(f"{root}/out/", token="11111111"))
    assert not files_of(root), "not even a manifest"
    last = unfinished("33333333")
    restarted = sink_of(f"{root}/out/", token="33333333")
    last.close()
    publish(restarted, written(PartFiles(restarted, 0, 1), ids(2), checkpoint=1))
    assert found_ids(f"{root}/out/") == [1, 2] and len(read()) == 2


def test_new_files_leave_files_that_are_no_records(root: str) -> None:
    sink = sink_of(f"{root}/out/")
    publish(sink, written(PartFiles(sink, 0, 1), ids(1)))
    if root.startswith("memory"):
        system, folder = file_system(root)
        with system.open_output_stream(f"{folder}/out/_common_metadata") as file:
            file.write(b"Dask")
        again = sink_of(f"{root}/out/", token="22222222")
        publish(again, written(PartFiles(again, 0, 1), ids(2)))
        assert "out/_common_metadata" in files_of(root) and found_ids(f"{root}/out/") == [2]


@pytest.mark.fault("hosts", "A sink removes the staging folders of its own kind and user only")
def test_only_staging_folders_of_the_same_target_are_removed(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [
        "data.2019.incomplete",
        "data.12345678.old.incomplete",
        "data.1234567.incomplete",
        "data.abcdef01.incomplete",
    ]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "notes").write_text("mine")
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / "data.12345678.incomplete").write_text("a file")
    (tmp_path / "data.87654321.incomplete").symlink_to(tmp_path / names[0])
    for name in ("data.12345678.incomplete", "data.87654321.incomplete"):
        os.utime(tmp_path / name, (0, 0), follow_symlinks=False)

    def publish_one(token: str) -> None:
        sink = sink_of(f"{tmp_path}/data/", token=token)
        publish(sink, written(PartFiles(sink, 0, 1), ids(1)))

    with monkeypatch.context() as patch:
        patch.setattr(os, "getuid", lambda: 12345)
        publish_one("11111111")
    assert (tmp_path / "data.abcdef01.incomplete").is_dir(), "of another user"
    publish_one("22222222")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {*names[:3], "data", "data.12345678.incomplete", "data.87654321.incomplete"}
    assert (tmp_path / names[0] / "notes").exists()


@pytest.mark.fault(
    "hosts", "Earlier files that cannot be removed do not fail a job whose files are published"
)
def test_publication_succeeds_where_earlier_files_cannot_be_removed(
    root: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for token, number in (("11111111", 1), ("22222222", 2)):
        sink = sink_of(f"{root}/out/", token=token)
        files = written(PartFiles(sink, 0, 1), ids(number))
        if number == 2:

            def refuse(*_: object, **__: object) -> None:
                raise PermissionError("of another user")

            monkeypatch.setattr(MemoryFileSystem, "rm_file", refuse)
            monkeypatch.setattr(MemoryFileSystem, "rm", refuse)
            if root.startswith("/"):
                os.mkdir(f"{root}/out/locked")
                pathlib.Path(f"{root}/out/locked/part-0").touch()
                os.chmod(f"{root}/out/locked", 0o500)
        publish(sink, files)
    monkeypatch.undo()
    assert found_ids(f"{root}/out/") == [2]
    if os.getuid() or not root.startswith("/"):
        assert "Sink: " in caplog.text and "earlier files could not be removed" in caplog.text
    for folder, _, _ in os.walk(root):
        os.chmod(folder, 0o700)
