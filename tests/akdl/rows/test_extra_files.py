"""Files of extra inputs that processes of one host share; here each "process" has locks of its own."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence

import pytest

from akdl.process.channel import ChannelError
from akdl.process.owned_folder import remove_unused
from akdl.rows.extra_files import ExtraFile, ExtraFiles
from akdl.wire import Rows, TableColumn
from tests.akdl.rows.test_file_rows import COLUMNS, ids_in, ids_of
from tests.support.leftovers import wait_until
from tests.support.random_rows import chunk_of

BEGINS = """
import sys
from akdl.rows.extra_files import ExtraFiles
from akdl.testing import table_columns

files = ExtraFiles(sys.argv[1], [table_columns({"id": "BIGINT"})], False, is_shared=True)
files.append(1, 1, b"half")
print("begun", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> str:
    return str(tmp_path / "akdl-extra-group-0")


def joined(folder: str) -> ExtraFiles:
    return ExtraFiles(folder, [COLUMNS, COLUMNS], False, is_shared=True)


def give(files: ExtraFiles, number: int, *ids: int) -> None:
    chunk = chunk_of({"id": list(ids)}, {"id": "BIGINT"})
    files.append(number, chunk.rows, chunk.columns)


def write_ids(path: str, chunks: Iterator[Rows], columns: Sequence[TableColumn]) -> None:
    pathlib.Path(path).write_text(" ".join(str(cell) for chunk in chunks for cell in ids_of(chunk)))


def leave(files: ExtraFiles) -> None:
    """Do what the kernel does at the end of a process."""
    for lock in (files._lock, files._writer_lock):
        if lock >= 0:
            os.close(lock)


def contents(files: list[ExtraFile]) -> list[tuple[list[int], str]]:
    return [(ids_in(file.path), pathlib.Path(file.text).read_text()) for file in files]


def test_what_all_get_is_written_once(folder: str) -> None:
    members = [joined(folder) for _ in range(3)]
    for chunk in ((1, 5, 6), (2, 7), (1, 8)):
        for member in members:
            give(member, *chunk)
    found = [member.complete(write_ids) for member in members]
    assert found[0] == found[1] == found[2]
    assert contents(found[0]) == [([5, 6, 8], "5 6 8"), ([7], "7")]
    assert {name for name in os.listdir(folder) if "." in name[1:]} == {"extra-1.tfrecords", "extra-2.tfrecords"}
    for member in members:
        assert os.path.exists(found[0][0].path), "as long as somebody may read"
        remove_unused(folder)
        leave(member)
    remove_unused(folder)
    assert not os.path.exists(folder)


def test_inputs_without_rows_are_files_too(folder: str) -> None:
    members = [joined(folder) for _ in range(2)]
    assert [contents(member.complete(write_ids)) for member in members] == [[([], ""), ([], "")]] * 2
    for member in members:
        leave(member)


def test_who_is_ready_first_waits_for_the_writer(folder: str) -> None:
    writer, reader = joined(folder), joined(folder)
    for member in (writer, reader):
        give(member, 1, 1)
    give(reader, 1, 2)
    found = []
    thread = threading.Thread(target=lambda: found.append(contents(reader.complete(write_ids))))
    thread.start()
    give(writer, 1, 2)
    assert not found, "the last chunk is not even there"
    writer.complete(write_ids)
    thread.join()
    assert found == [[([1, 2], "1 2"), ([], "")]]
    leave(writer)
    leave(reader)


def test_one_that_comes_late_reads_what_is_complete_or_writes_anew(folder: str) -> None:
    writer = joined(folder)
    give(writer, 1, 1)
    found = contents(writer.complete(write_ids))
    late = joined(folder)
    leave(writer)
    remove_unused(folder)  # the writer's parent tries it
    give(late, 1, 1)
    assert contents(late.complete(write_ids)) == found
    leave(late)
    remove_unused(folder)
    later = joined(folder)
    give(later, 1, 1)
    assert contents(later.complete(write_ids)) == found
    leave(later)


def test_other_rows_than_those_that_were_written_are_an_error(folder: str) -> None:
    """Two jobs of one operator have the same folder; the order of chunks does not matter."""
    first, same, other = joined(folder), joined(folder), joined(folder)
    for member, chunks in ((first, [(1,), (2,)]), (same, [(2,), (1,)]), (other, [(1,), (3,)])):
        for ids in chunks:
            give(member, 1, *ids)
    assert first.complete(write_ids) == same.complete(write_ids)
    with pytest.raises(ChannelError, match="another process of this host has other rows of the extra inputs"):
        other.complete(write_ids)
    for member in (first, same, other):
        leave(member)


@pytest.mark.process
def test_a_writer_that_is_killed_is_followed_or_an_error(folder: str) -> None:
    """Who has dropped chunks for it cannot go on; who has all of them writes. What the killed one left is gone."""
    command = [sys.executable, "-c", BEGINS, folder]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None and killed.stdout.readline() == "begun\n"
        early, late = joined(folder), joined(folder)
        give(early, 1, 1)
        killed.kill()
    with pytest.raises(ChannelError, match="that writes the extra inputs has ended before they were complete"):
        early.complete(write_ids)
    give(late, 1, 1)
    give(late, 1, 2)
    assert contents(late.complete(write_ids))[0] == ([1, 2], "1 2")
    leave(early)
    leave(late)
    remove_unused(folder)
    wait_until(lambda: not os.path.exists(folder), "the folder went with the last process")


def test_a_folder_that_others_may_look_into_is_refused(folder: str) -> None:
    os.mkdir(folder)
    os.chmod(folder, 0o755)
    with pytest.raises(ChannelError, match="is not a folder that only this user can access"):
        joined(folder)
    assert os.listdir(folder) == [], "nothing is made in it"
