"""Rows on their way into a script: complete or an error, and readable while they arrive."""

from __future__ import annotations

import os
import pathlib
import queue
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from akdl.process.channel import ChannelError
from akdl.rows import file_rows
from akdl.rows.examples import ExampleEncoder, records
from akdl.rows.file_rows import FileRows
from akdl.testing import table_columns
from akdl.wire import Chunk, EndOfInput, Example, Rows
from akdl.wire.cells import read_cells
from tests.support.leftovers import DEADLINE_S, wait_until
from tests.support.random_rows import chunk_of

COLUMNS = table_columns({"id": "BIGINT"})


class Feed:
    """A stream of chunks that the test fills by hand."""

    def __init__(self) -> None:
        self._queue = queue.Queue()
        self._rows, self._checksum = 0, 0

    def __iter__(self) -> Iterator[Any]:
        for item in iter(self._queue.get, None):
            if isinstance(item, Exception):
                raise item
            yield item

    def chunk(self, *ids: int, input: int = 0) -> None:
        """Let rows with these ids arrive together."""
        chunk = chunk_of({"id": list(ids)}, {"id": "BIGINT"}, input)
        self._rows += 0 if input else chunk.rows
        self._checksum = zlib.crc32(chunk.columns, self._checksum)
        self._queue.put(chunk)

    def end(self, rows: int | None = None) -> None:
        self._queue.put(
            Chunk(
                end=EndOfInput(rows=self._rows if rows is None else rows, checksum=self._checksum)
            )
        )
        self._queue.put(None)

    def put(self, item: Any) -> None:
        self._queue.put(item)


def ids_in(path: str) -> list[Any]:
    """Return the ids of the rows of a TFRecord file."""
    with open(path, "rb") as file:
        return [
            Example.FromString(record).features.feature["id"].int64_list.value[0]
            for record in records(file)
        ]


def ids_of(message: Rows) -> Any:
    """Return the ids of rows as columns."""
    (column,) = message.columns
    return read_cells(column, message.rows).values.tolist()


@pytest.fixture
def feed() -> Feed:
    return Feed()


@pytest.fixture
def rows(feed: Feed, tmp_path: pathlib.Path) -> FileRows:
    return FileRows(str(tmp_path), feed, COLUMNS)


def test_file_and_length_are_known_after_the_end(feed: Feed, rows: FileRows) -> None:
    feed.chunk(1, 2)
    feed.chunk(3)
    feed.end()
    assert ids_in(rows.file()) == [1, 2, 3] and rows.length() == 3


def test_input_without_rows_has_an_empty_file(feed: Feed, rows: FileRows) -> None:
    feed.end()
    assert list(rows.segments()) == list(rows.columns()) == []
    assert (
        ids_in(rows.file()) == []
        and rows.length() == 0
        and [ids_in(path) for path in rows.segments()] == [[]]
    )


def test_segments_follow_the_rows_and_leave_nothing(
    feed: Feed, rows: FileRows, tmp_path: pathlib.Path
) -> None:
    feed.chunk(1)
    segments = rows.segments()
    assert ids_in(next(segments)) == [1]
    feed.chunk(2)
    assert ids_in(next(segments)) == [2]
    feed.end()
    assert list(segments) == []
    assert os.listdir(tmp_path) == ["dataset.columns"], "who reads once needs no file of Examples"
    assert [each for path in rows.segments() for each in ids_in(path)] == [1, 2]
    assert sorted(os.listdir(tmp_path)) == ["dataset.columns", "dataset.tfrecords"], (
        "who reads again may do so often"
    )


def test_two_readers_at_once_get_all_rows_each(feed: Feed, rows: FileRows) -> None:
    feed.chunk(1)
    first, second = rows.segments(), rows.segments()
    found = [ids_in(next(first)), ids_in(next(second))]
    feed.chunk(2)
    feed.end()
    found[0] += [each for path in first for each in ids_in(path)]
    found[1] += [each for path in second for each in ids_in(path)]
    assert found == [[1, 2], [1, 2]]


def test_segments_of_a_complete_file_are_the_file(feed: Feed, rows: FileRows) -> None:
    feed.chunk(1)
    feed.end()
    whole = rows.file()
    assert list(rows.segments()) == [whole]


def test_columns_follow_the_rows_and_can_be_read_again(
    feed: Feed, rows: FileRows, tmp_path: pathlib.Path
) -> None:
    columns = rows.columns()
    feed.chunk(1, 2)
    assert ids_of(next(columns)) == [1, 2] and rows.progress().rows_read == 2
    feed.chunk(3)
    feed.end()
    assert [ids_of(message) for message in columns] == [[3]]
    assert [ids_of(message) for message in rows.columns()] == [[1, 2], [3]]
    assert os.listdir(tmp_path) == ["dataset.columns"], "nobody asked for Examples"


def test_the_file_is_made_while_rows_arrive_and_once(
    feed: Feed, rows: FileRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, encode = [], ExampleEncoder.pieces
    monkeypatch.setattr(
        ExampleEncoder, "pieces", lambda self, rows: made.append(rows.rows) or encode(self, rows)
    )
    found = []
    readers = [threading.Thread(target=lambda: found.append(rows.file())) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(1, 30):
        feed.chunk(*range(number))
    wait_until(lambda: len(made) == 29, "the rows that came are in the file")
    assert not found and not rows.progress().dataset_complete
    feed.end()
    for reader in readers:
        reader.join()
    assert made == list(range(1, 30)) and len(set(found)) == 1
    assert ids_in(found[0]) == [each for number in range(1, 30) for each in range(number)]


def test_file_started_for_segments_is_completed_for_file(feed: Feed, rows: FileRows) -> None:
    segments = rows.segments()
    feed.chunk(1)
    next(segments)
    feed.chunk(2)
    feed.end()
    assert ids_in(rows.file()) == [1, 2]
    assert [ids_in(path) for path in segments] == [[2]]


def test_file_requested_by_other_members_is_made_without_the_script(
    feed: Feed, rows: FileRows
) -> None:
    rows.make_file()
    feed.chunk(1)
    feed.end()
    wait_until(lambda: rows.progress().dataset_complete, "the file is there")
    progress = rows.progress()
    assert ids_in(progress.dataset_file) == [1]
    assert (progress.rows_read, progress.waiting) == (0, False), (
        "it is not the script that waits for rows, or takes them"
    )


def test_file_that_was_not_requested_is_not_reported_as_complete(
    feed: Feed, rows: FileRows
) -> None:
    feed.chunk(1)
    feed.end()
    assert rows.length() == 1 and not rows.progress().dataset_complete
    rows.file()
    assert rows.progress().dataset_complete


def test_extra_inputs_have_files_of_their_own(feed: Feed, tmp_path: pathlib.Path) -> None:
    rows = FileRows(str(tmp_path), feed, COLUMNS, extra_columns=[COLUMNS, COLUMNS])
    feed.chunk(7, input=2)
    feed.chunk(1)
    feed.chunk(8, 9, input=2)
    feed.end()
    assert [ids_in(file.path) for file in rows.extra_files(lambda path, chunks, columns: None)] == [
        [],
        [7, 8, 9],
    ]
    assert rows.length() == 1 and ids_in(rows.file()) == [1]


def test_a_script_that_waits_for_the_file_waits_for_rows(feed: Feed, rows: FileRows) -> None:
    reader = threading.Thread(target=rows.file)
    reader.start()
    wait_until(lambda: rows.progress().waiting, "the script waits")
    feed.end()
    reader.join()
    assert not rows.progress().waiting


@pytest.mark.parametrize(
    "ask",
    [
        FileRows.file,
        FileRows.length,
        lambda rows: list(rows.segments()),
        lambda rows: list(rows.columns()),
    ],
)
@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (lambda feed: feed.put(None), "stopped after 1 without an end mark"),
        (lambda feed: feed.end(rows=2), "expected 2 rows .* received 1 rows"),
        (lambda feed: feed.put(ChannelError("cut")), "cut"),
    ],
)
@pytest.mark.fault("network", "A broken connection is an error and never the end of the rows")
def test_an_incomplete_stream_is_an_error_never_an_end(
    feed: Feed, rows: FileRows, ending: Callable[..., Any], words: str, ask: Callable[..., Any]
) -> None:
    feed.chunk(1)
    ending(feed)
    with pytest.raises(ChannelError, match=words):
        ask(rows)


def test_a_file_that_cannot_be_made_is_an_error_for_all(
    feed: Feed, rows: FileRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Any, rows: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(ExampleEncoder, "pieces", fail)
    rows.make_file()
    feed.chunk(1)
    feed.end()
    with pytest.raises(ChannelError, match="the disk is full"):
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            list(rows.columns())
            threading.Event().wait(0.01)


@pytest.mark.parametrize(
    ("taken", "size", "first"), [(1, 32 << 20, 0), (3, 32 << 20, 0), (3, 0, 2), (0, 32 << 20, 0)]
)
def test_last_rows_are_those_that_the_script_read(
    tmp_path: pathlib.Path, taken: int, size: int, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_rows, "SEGMENT_BYTES", 1)
    monkeypatch.setattr(file_rows, "LAST_BYTES", size)
    feed = Feed()
    rows = FileRows(str(tmp_path), feed, COLUMNS)
    for number in range(4):
        feed.chunk(number)
    feed.end()
    assert rows.is_empty() is False and rows.length_beforehand() == 4
    for _ in zip(range(taken), rows.columns()):
        pass
    found = [ids_of(Rows.FromString(columns))[0] for _, columns in rows.last()]
    assert found == list(range(first, taken or 4))
