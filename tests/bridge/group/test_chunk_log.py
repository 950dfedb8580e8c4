"""Chunks on disk that several read while they come."""

from __future__ import annotations

import os
import pathlib
import stat
import threading
import zlib
from collections.abc import Iterator

import pytest

from akdl.wire import Chunk
from bridge.group.chunk_log import ChunkLog
from tests.support.deadline import DEADLINE_S
from tests.support.small_disks import small_disk


@pytest.fixture
def chunk_log(tmp_path: pathlib.Path) -> Iterator[ChunkLog]:
    made = ChunkLog(str(tmp_path / "chunk_log"))
    yield made
    made.close()


def read(chunk_log: ChunkLog, start: int = 0) -> list[Chunk]:
    return [Chunk.FromString(message) for message in chunk_log.read(start, lambda: True)]


def test_chunk_log_returns_chunks_unchanged_and_the_end_mark(chunk_log: ChunkLog) -> None:
    chunk_log.append(2, b"first", 1)
    chunk_log.append(3, b"", 2)
    chunk_log.end()
    chunk_log.end()
    *chunks, last = read(chunk_log)
    assert [(chunk.rows, chunk.columns, chunk.input) for chunk in chunks] == [
        (2, b"first", 1),
        (3, b"", 2),
    ]
    assert (last.end.rows, last.end.checksum) == (5, zlib.crc32(b"first"))
    assert [chunk.columns for chunk in read(chunk_log, 1)[:-1]] == [b""]
    assert [chunk.HasField("end") for chunk in read(chunk_log, 2)] == [True]


def test_inputs_without_rows_have_an_end_too(chunk_log: ChunkLog) -> None:
    chunk_log.end()
    (last,) = read(chunk_log)
    assert last.HasField("end") and last.end.rows == 0


def test_readers_follow_while_chunks_come(chunk_log: ChunkLog) -> None:
    found: list[list[Chunk]] = [[], []]
    seen = threading.Barrier(3)

    def follow(chunks: list[Chunk]) -> None:
        for message in chunk_log.read(0, lambda: True):
            chunks.append(Chunk.FromString(message))
            seen.wait(DEADLINE_S)

    threads = [threading.Thread(target=follow, args=(chunks,)) for chunks in found]
    for thread in threads:
        thread.start()
    for number in range(5):
        chunk_log.append(1, b"%d" % number, 1)
        seen.wait(DEADLINE_S)  # both have got it, before there is another
    chunk_log.end()
    seen.wait(DEADLINE_S)
    for thread in threads:
        thread.join()
    assert [[chunk.columns for chunk in chunks] for chunks in found] == [
        [b"0", b"1", b"2", b"3", b"4", b""]
    ] * 2


def test_waiting_reader_ends_when_unwanted_or_the_chunk_log_is_closed(
    chunk_log: ChunkLog, tmp_path: pathlib.Path
) -> None:
    assert list(chunk_log.read(0, lambda: False)) == []
    chunk_log.append(1, b"x", 1)
    assert len(list(chunk_log.read(0, lambda: False))) == 1
    rest = chunk_log.read(0, lambda: True)
    next(rest)
    chunk_log.close()
    chunk_log.close()
    assert list(rest) == [] and read(chunk_log) == []
    assert os.listdir(tmp_path) == []


def test_chunk_log_is_private_to_its_user(chunk_log: ChunkLog, tmp_path: pathlib.Path) -> None:
    chunk_log.append(1, b"x", 1)
    assert stat.S_IMODE((tmp_path / "chunk_log").stat().st_mode) == 0o600


def test_full_disk_is_an_error_that_names_free_space(tmp_path: pathlib.Path) -> None:
    with small_disk(tmp_path / "small", "size=64k") as folder:
        chunk_log = ChunkLog(os.path.join(folder, "chunk_log"))
        with pytest.raises(
            OSError,
            match=f"No space left on device: {folder} holds .* MB, .* MB are free.*Free some space there",
        ):
            chunk_log.append(1, bytes(1 << 17), 1)
        chunk_log.close()
