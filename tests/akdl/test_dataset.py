"""Rows on their way into a script: complete or an error, and readable while they arrive."""

import queue
import zlib

import pytest

from akdl.channel import ChannelError
from akdl.dataset import Rows
from akdl.wire import Chunk, EndOfInput
from tests.support.leftovers import wait_until


class Feed:
    """A stream of chunks that the test fills by hand."""

    def __init__(self):
        self._queue = queue.Queue()
        self._rows, self._checksum = 0, 0

    def __iter__(self):
        for item in iter(self._queue.get, None):
            if isinstance(item, Exception):
                raise item
            yield item

    def chunk(self, rows, records):
        self._rows += rows
        self._checksum = zlib.crc32(records, self._checksum)
        self._queue.put(Chunk(rows=rows, records=records))

    def end(self, rows=None):
        self._queue.put(Chunk(end=EndOfInput(rows=self._rows if rows is None else rows, checksum=self._checksum)))
        self._queue.put(None)

    def put(self, item):
        self._queue.put(item)


@pytest.fixture
def feed():
    return Feed()


@pytest.fixture
def rows(feed, tmp_path):
    return Rows(str(tmp_path), feed)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def test_file_and_length_after_the_end(feed, rows):
    feed.chunk(2, b"ab")
    feed.chunk(1, b"c")
    feed.end()
    assert read(rows.file()) == b"abc" and rows.length() == 3


def test_no_rows(feed, rows):
    feed.end()
    assert read(rows.file()) == b"" and rows.length() == 0 and [read(path) for path in rows.segments()] == [b""]


def test_segments_follow_the_rows_and_leave_nothing(feed, rows, tmp_path):
    feed.chunk(1, b"one")
    wait_until(lambda: rows.count == 1, "the first chunk is there")
    segments = rows.segments()
    assert read(next(segments)) == b"one"
    feed.chunk(1, b"two")
    wait_until(lambda: rows.count == 2, "the second chunk is there")
    assert read(next(segments)) == b"two"
    feed.end()
    assert list(segments) == []
    assert [path.name for path in tmp_path.iterdir()] == ["dataset.tfrecords"]


def test_two_readers_at_once_get_all_rows_each(feed, rows):
    feed.chunk(1, b"one")
    wait_until(lambda: rows.count == 1, "the first chunk is there")
    first, second = rows.segments(), rows.segments()
    found = [[read(next(first))], [read(next(second))]]
    feed.chunk(1, b"two")
    feed.end()
    found[0] += [read(path) for path in first]
    found[1] += [read(path) for path in second]
    assert [b"".join(pieces) for pieces in found] == [b"onetwo", b"onetwo"]


def test_segments_of_a_complete_file_are_the_file(feed, rows):
    feed.chunk(1, b"one")
    feed.end()
    whole = rows.file()
    assert list(rows.segments()) == [whole]


@pytest.mark.parametrize("ask", [Rows.file, Rows.length, lambda rows: list(rows.segments())])
@pytest.mark.parametrize(
    ("ending", "words"),
    [
        (lambda feed: feed.put(None), "stopped after 1 without an end mark"),
        (lambda feed: feed.end(rows=2), "the end mark speaks of 2 rows .* 1 rows"),
        (lambda feed: feed.put(ChannelError("cut")), "cut"),
    ],
)
def test_an_incomplete_stream_is_an_error_never_an_end(feed, rows, ending, words, ask):
    feed.chunk(1, b"one")
    ending(feed)
    with pytest.raises(ChannelError, match=words):
        ask(rows)
