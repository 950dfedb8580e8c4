"""Rows of a script that reads them once: few are held, none stays on disk, and a second pass is an
error.
"""

from __future__ import annotations

import os
import pathlib
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from akdl.rows.stream_rows import HELD_BYTES, OnceRows
from akdl.runner.context import TFContext, first_shape
from akdl.wire import Chunk, EndOfInput
from tests.akdl.rows.test_file_rows import COLUMNS, Feed, ids_in, ids_of
from tests.support.random_rows import chunk_of

MANY = 1_000_000


@pytest.fixture
def feed() -> Feed:
    return Feed()


@pytest.fixture
def rows(feed: Feed, tmp_path: pathlib.Path) -> OnceRows:
    return OnceRows(str(tmp_path), feed, COLUMNS)


def million() -> Iterator[Chunk]:
    """Yield chunks of 20,000 rows, 160 KB, and the end mark."""
    checksum, size = 0, 20_000
    for start in range(0, MANY, size):
        chunk = chunk_of({"id": np.arange(start, start + size)}, {"id": "BIGINT"})
        checksum = zlib.crc32(chunk.columns, checksum)
        yield chunk
    yield Chunk(end=EndOfInput(rows=MANY, checksum=checksum))


def bytes_in(folder: pathlib.Path) -> int:
    return sum(os.path.getsize(folder / name) for name in os.listdir(folder))


def test_columns_of_a_million_rows_never_touch_the_disk(tmp_path: pathlib.Path) -> None:
    found, most = 0, 0
    for message in OnceRows(str(tmp_path), million(), COLUMNS).columns():
        found += sum(ids_of(message))
        most = max(most, bytes_in(tmp_path))
    assert (found, most) == (MANY * (MANY - 1) // 2, 0)


def test_segments_of_a_million_rows_stay_within_the_window(tmp_path: pathlib.Path) -> None:
    rows, read, most, total = OnceRows(str(tmp_path), million(), COLUMNS), 0, 0, 0
    for path in rows.segments():
        size = os.path.getsize(path)
        read, total = rows.taken, total + size
        most = max(most, bytes_in(tmp_path))
        assert size == bytes_in(tmp_path)  # the segment, and nothing else
    frame = total / MANY  # bytes of an Example of one BIGINT
    assert read == MANY and most <= (HELD_BYTES / 8 + 20_000) * frame < total
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "again", [lambda rows: list(rows.columns()), lambda rows: list(rows.segments())]
)
def test_a_second_pass_is_an_error(feed: Feed, rows: OnceRows, again: Callable[..., Any]) -> None:
    feed.chunk(1, 2)
    feed.end()
    assert [ids_in(path) for path in rows.segments()] == [[1, 2]]
    with pytest.raises(
        ValueError, match="can be read once, and this is a second pass: remove readOnce"
    ):
        again(rows)


@pytest.mark.parametrize(
    "ask",
    [lambda context: context.rows.file(), lambda context: context.rows.length(), TFContext.shares],
)
def test_read_once_refuses_calls_that_need_all_rows(
    rows: OnceRows, ask: Callable[..., Any]
) -> None:
    with pytest.raises(RuntimeError, match="with readOnce .* remove readOnce"):
        ask(TFContext(rows, COLUMNS))


@pytest.mark.parametrize("num_epochs", [2, None])
def test_several_epochs_are_refused_before_the_first_row(
    rows: OnceRows, num_epochs: int | None
) -> None:
    with pytest.raises(ValueError, match=f"can be read once, and num_epochs is {num_epochs}"):
        TFContext(rows, COLUMNS).batches(10, num_epochs=num_epochs)


def test_shapes_are_known_before_the_rows_are_read(tmp_path: pathlib.Path) -> None:
    types = {"x": "ARRAY<FLOAT>"}
    chunk = chunk_of({"x": [[1.0, 2.0, 3.0]]}, types)
    end = Chunk(end=EndOfInput(rows=1, checksum=zlib.crc32(chunk.columns)))
    rows = OnceRows(str(tmp_path), [chunk, end], [])
    assert first_shape(rows, "x") == [3]
    assert len(list(rows.columns())) == 1 and first_shape(rows, "x") == [3]


def test_first_columns_are_refused_after_reading_has_begun(feed: Feed, rows: OnceRows) -> None:
    feed.chunk(1)
    feed.end()
    assert len(list(rows.columns())) == 1
    with pytest.raises(RuntimeError, match="the first rows are not available"):
        rows.first_columns()


def test_read_once_input_without_rows_has_no_columns(feed: Feed, rows: OnceRows) -> None:
    feed.end()
    assert rows.first_columns() is None and list(rows.columns()) == []
