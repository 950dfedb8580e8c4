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


def test_is_empty_is_false_once_the_first_row_arrives(feed: Feed, rows: Any) -> None:
    feed.chunk(1, 2)
    assert not rows.is_empty()
    next(rows.segments())
    assert not rows.is_empty()  # they were taken, and the end has not come


def test_is_empty_is_true_when_the_input_ends_without_rows(feed: Feed, rows: Any) -> None:
    feed.end()
    assert rows.is_empty()


def test_is_empty_raises_if_the_input_breaks_before_the_first_row(feed: Feed, rows: Any) -> None:
    feed.put(OSError("gone"))
    with pytest.raises(ChannelError, match="did not arrive completely: gone"):
        rows.is_empty()
