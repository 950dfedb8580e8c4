"""Chunks of columns on disk, and the TFRecord file of the same rows."""

from __future__ import annotations

import errno
import io
import os
import pathlib
import tracemalloc
from typing import Any

import pytest

from akdl.rows import chunk_file
from akdl.rows.chunk_file import ChunkFile
from akdl.rows.examples import ExampleEncoder, records
from akdl.testing import table_columns
from akdl.wire import Example
from tests.support.own_process import in_own_process
from tests.support.random_rows import chunk_of

COLUMNS = table_columns({"id": "BIGINT"})


def ids(frames: bytes) -> list[Any]:
    return [
        Example.FromString(record).features.feature["id"].int64_list.value[0]
        for record in records(io.BytesIO(frames))
    ]


@pytest.fixture
def file(tmp_path: pathlib.Path) -> ChunkFile:
    """Three chunks with the ids 1 and 2, 3, 4 to 6."""
    made = ChunkFile(str(tmp_path), "rows", ExampleEncoder(COLUMNS))
    for one in ([1, 2], [3], [4, 5, 6]):
        made.append(len(one), chunk_of({"id": one}, {"id": "BIGINT"}, 0).columns)
    return made


def test_chunk_file_has_the_chunks_as_received(file: ChunkFile) -> None:
    assert len(file) == 3 and [file.rows(count) for count in range(4)] == [0, 2, 3, 6]
    assert [file.columns(number).rows for number in range(3)] == [2, 1, 3]
    assert file.columns(1).SerializeToString() == chunk_of({"id": [3]}, {"id": "BIGINT"}, 0).columns


@pytest.mark.parametrize(("start", "share", "end"), [(0, 0, 1), (0, 1, 3), (1, 1, 3), (2, 0, 3)])
def test_runs_of_about_a_size_have_a_chunk_at_least(
    file: ChunkFile, start: int, share: int, end: int
) -> None:
    assert file.end_of_run(start, share * file.size()) == end


@pytest.mark.parametrize("keep", [False, True])
def test_frames_are_read_from_a_file_that_is_made_once_if_kept(
    file: ChunkFile, tmp_path: pathlib.Path, keep: bool
) -> None:
    assert ids(file.frames(1, 3, keep)) == [3, 4, 5, 6]
    assert file.has_frames(3) == keep == os.path.exists(file.path)
    assert ids(file.frames(0, 1, False)) == [1, 2]
    if keep:
        file.drop_columns()
        assert os.listdir(tmp_path) == ["rows.tfrecords"] and ids(file.frames(0, 3, True)) == [
            1,
            2,
            3,
            4,
            5,
            6,
        ]


def test_the_tfrecord_file_grows_with_the_chunks_in_another_folder_too(
    file: ChunkFile, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "other").mkdir()
    file.path = str(tmp_path / "other" / os.path.basename(file.path))
    for chunks, expected in ((0, []), (2, [1, 2, 3]), (1, [1, 2, 3]), (3, [1, 2, 3, 4, 5, 6])):
        file.make_frames(chunks)
        assert ids((tmp_path / "other" / "rows.tfrecords").read_bytes()) == expected


def test_too_little_room_is_an_error_before_anything_is_written(
    file: ChunkFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunk_file, "free_bytes", lambda folder: 10)
    with pytest.raises(OSError, match="and the next rows need") as caught:
        file.make_frames(3)
    assert caught.value.errno == errno.ENOSPC and not os.path.exists(file.path)


def test_a_file_cut_short_is_an_error(file: ChunkFile, tmp_path: pathlib.Path) -> None:
    os.truncate(tmp_path / "rows.columns", file.size() - 1)
    with pytest.raises(EOFError, match=f"rows.columns ends before {file.size()}"):
        file.columns(2)


def _size_of_chunks(folder: str, count: int) -> int:
    file = ChunkFile(folder, "many", ExampleEncoder(COLUMNS))
    tracemalloc.start()
    for _ in range(count):
        file.append(1, b"x")
    return tracemalloc.get_traced_memory()[0]


def test_memory_does_not_grow_with_the_number_of_chunks(tmp_path: pathlib.Path) -> None:
    size = in_own_process(_size_of_chunks, str(tmp_path), 20_000)
    assert size / 20_000 < 20, "bytes per chunk"
