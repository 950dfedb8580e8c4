"""Rows of both kinds arrive completely or fail, and the first one tells that there are rows."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from akdl.process.channel import ChannelError
from akdl.rows.file_rows import FileRows
from akdl.rows.stream_rows import StreamRows
from tests.akdl.rows.test_file_rows import COLUMNS, Feed


@pytest.fixture
def feed() -> Feed:
    return Feed()


@pytest.fixture(params=[FileRows, StreamRows])
def rows(request: pytest.FixtureRequest, feed: Feed, tmp_path: pathlib.Path) -> Any:
    return request.param(str(tmp_path), feed, COLUMNS)


def test_the_first_row_says_that_there_are_rows(feed: Feed, rows: Any) -> None:
    feed.chunk(1, 2)
    assert not rows.is_empty()
    next(rows.segments())
    assert not rows.is_empty()  # they were taken, and the end has not come


def test_the_end_says_that_there_are_none(feed: Feed, rows: Any) -> None:
    feed.end()
    assert rows.is_empty()


def test_rows_that_break_off_before_the_first_are_an_error(feed: Feed, rows: Any) -> None:
    feed.put(OSError("gone"))
    with pytest.raises(ChannelError, match="did not arrive completely: gone"):
        rows.is_empty()
