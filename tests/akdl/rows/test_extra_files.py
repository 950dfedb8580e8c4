"""Files of extra inputs that processes of one host share; here each "process" has locks of
its own.
"""

from __future__ import annotations

import os
import pathlib
import threading
from collections.abc import Callable, Iterator, Sequence

import pytest

from akdl.process.channel import ChannelError
from akdl.rows.extra_files import ExtraFile, ExtraFiles
from akdl.storage.locked_folder import LOCK, remove_unused
from akdl.wire import Rows, TableColumn
from tests.akdl.rows.test_file_rows import COLUMNS, ids_in, ids_of
from tests.support.leftovers import wait_until
from tests.support.random_rows import chunk_of

TYPES = {"id": "BIGINT"}


@pytest.fixture
def shared(tmp_path: pathlib.Path) -> str:
    return str(tmp_path / "akdl-extra-group-0")


@pytest.fixture
def made(tmp_path: pathlib.Path) -> Iterator[Callable[[], ExtraFiles]]:
    """Makes the files of one more process, with a folder of its own."""
    all_made: list[ExtraFiles] = []

    def make() -> ExtraFiles:
        folder = tmp_path / str(len(all_made))
        folder.mkdir()
        all_made.append(ExtraFiles(str(folder), [COLUMNS, COLUMNS], False))
        return all_made[-1]

    yield make
    for each in all_made:
        leave(each)


def give(files: ExtraFiles, number: int, *ids: int) -> None:
    chunk = chunk_of({"id": list(ids)}, TYPES)
    files.append(number, chunk.rows, chunk.columns)


def write_ids(path: str, chunks: Iterator[Rows], columns: Sequence[TableColumn]) -> None:
    pathlib.Path(path).write_text(" ".join(str(cell) for chunk in chunks for cell in ids_of(chunk)))


def leave(files: ExtraFiles) -> None:
    """Do what the kernel does at the end of a process."""
    lock = vars(files).pop("_lock", -1)
    if lock >= 0:
        os.close(lock)


def contents(files: list[ExtraFile]) -> list[tuple[list[int], str]]:
    return [(ids_in(file.path), pathlib.Path(file.text).read_text()) for file in files]


def test_one_process_makes_the_files_and_all_read_them(
    made: Callable[[], ExtraFiles], shared: str
) -> None:
    maker, *others = processes = [made() for _ in range(3)]
    for chunk in ((1, 5, 6), (2, 7), (1, 8)):
        give(maker, *chunk)
    found = [
        maker.complete(write_ids, shared),
        *[each.complete(write_ids, shared, waits=True) for each in others],
    ]
    assert found[0] == found[1] == found[2]
    assert contents(found[0]) == [([5, 6, 8], "5 6 8"), ([7], "7")]
    assert sorted(os.listdir(shared)) == [
        LOCK,
        "complete",
        "extra-1.tfrecords",
        "extra-2.tfrecords",
        "text-1",
        "text-2",
    ]
    for each in processes:
        assert os.path.exists(found[0][0].path), "as long as somebody may read"
        remove_unused(shared)
        leave(each)
    remove_unused(shared)
    assert not os.path.exists(shared)


def test_a_process_alone_has_them_in_its_own_folder(
    made: Callable[[], ExtraFiles], tmp_path: pathlib.Path
) -> None:
    alone = made()
    give(alone, 1, 5)
    files = alone.complete(write_ids)
    assert contents(files) == [([5], "5"), ([], "")]
    assert {os.path.dirname(path) for file in files for path in file} == {str(tmp_path / "0")}


def test_inputs_without_rows_are_files_too(made: Callable[[], ExtraFiles], shared: str) -> None:
    maker, other = made(), made()
    assert contents(maker.complete(write_ids, shared)) == [([], ""), ([], "")]
    assert contents(other.complete(write_ids, shared, waits=True)) == [([], ""), ([], "")]


def test_process_that_is_ready_first_waits_for_the_last_file(
    made: Callable[[], ExtraFiles], shared: str
) -> None:
    """Whether the maker has begun or not."""
    maker, other, found = made(), made(), []
    thread = threading.Thread(
        target=lambda: found.append(contents(other.complete(write_ids, shared, waits=True)))
    )
    thread.start()
    wait_until(lambda: os.path.exists(shared), "the other waits")
    give(maker, 1, 1, 2)

    def write_slowly(path: str, chunks: Iterator[Rows], columns: Sequence[TableColumn]) -> None:
        thread.join(0.2)
        assert not found, "not all files are there"
        write_ids(path, chunks, columns)

    maker.complete(write_slowly, shared)
    thread.join()
    assert found == [[([1, 2], "1 2"), ([], "")]]


def test_folder_that_other_users_can_read_is_refused(
    made: Callable[[], ExtraFiles], shared: str
) -> None:
    os.mkdir(shared)
    os.chmod(shared, 0o755)
    for waits in (False, True):
        with pytest.raises(ChannelError, match="is not a folder that only this user can access"):
            made().complete(write_ids, shared, waits)
    assert os.listdir(shared) == [], "nothing is made in it"
