"""Files become visible together, and replace only what sinks have written."""

from __future__ import annotations

import os
from collections.abc import Sequence

import fsspec
import pyarrow.fs
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from bridge.exceptions import BridgeError, ConfigurationError
from bridge.files.publishing import FileSink, abandon, check_target, file_system, files_in, publish
from bridge.files.writing import PartFiles
from tests.bridge.files.attempts import files_of, found_ids, ids, listed, sink_of, written


def test_a_lost_file_publishes_nothing(root: str) -> None:
    address = f"{root}/out/"
    first, second = sink_of(address, token="11111111"), sink_of(address, token="22222222")
    publish(first, written(PartFiles(first, 0, 1), ids(1)))
    files = {**written(PartFiles(second, 0, 2), ids(2)), "part-00001-22222222-0.parquet": [1, 100]}
    with pytest.raises(BridgeError, match=r"^Sink: expected 'part-00001.* 1 other files .* on the host .*that all hosts share"):
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
    publish(sink_of(address, token="44444444"), written(PartFiles(sink_of(address, token="44444444"), 0, 1), ids(2)))
    assert not [name for name in files_of(root) if "33333333" in name], (
        "what a killed program has left goes with the next files"
    )
    abandon(sink)
    assert found_ids(address) == [2]


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
    with file_system(root)[0].open_output_stream(f"{file_system(root)[1]}/out/notes.txt") as file:
        file.write(b"mine")
    with pytest.raises(ConfigurationError, match="has the file .*notes.txt, which no sink has written: choose another folder"):
        check_target(folder, True)
    check_target(sink_of(f"{root}/out/", appends=True), True)


def test_a_folder_whose_first_file_comes_while_it_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = fsspec.filesystem("memory")
    answers = iter([False])
    monkeypatch.setattr(MemoryFileSystem, "isdir", lambda self, path: next(answers, True))
    storage.pipe("/first_file/part-0", b"rows")
    try:
        files = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(storage))
        assert [path.strip("/") for path in files_in(files, "/first_file")] == ["first_file/part-0"]
    finally:
        storage.rm("/first_file", recursive=True)
