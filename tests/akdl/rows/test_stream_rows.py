"""Rows of a stream on their way into a script: each once, few at a time, and none without
notice.
"""

from __future__ import annotations

import os
import pathlib
import threading
from collections.abc import Iterator

import pytest

from akdl.process.channel import ChannelError
from akdl.rows import stream_rows
from akdl.rows.stream_rows import HELD_BYTES, StreamRows
from akdl.runner.config import StreamTaskConfig
from akdl.runner.cuts import Cuts
from akdl.wire import Chunk, Rows, Task
from tests.akdl.rows.test_file_rows import COLUMNS, Feed, ids_in, ids_of
from tests.support.leftovers import wait_until
from tests.support.random_rows import chunk_of


@pytest.fixture
def feed() -> Feed:
    return Feed()


@pytest.fixture
def rows(feed: Feed, tmp_path: pathlib.Path) -> StreamRows:
    return StreamRows(str(tmp_path), feed, COLUMNS)


def test_segments_follow_arriving_chunks_and_leave_no_file(
    feed: Feed, rows: StreamRows, tmp_path: pathlib.Path
) -> None:
    segments = rows.segments()
    feed.chunk(1, 2)
    first = next(segments)
    assert ids_in(first) == [1, 2] and (rows.taken, rows.passed) == (2, 0)
    feed.chunk(3)
    second = next(segments)
    assert ids_in(second) == [3] and (rows.taken, rows.passed) == (3, 2)
    assert not os.path.exists(first)
    feed.end()
    assert list(segments) == [] and rows.passed == 3
    assert os.listdir(tmp_path) == []


def test_columns_follow_arriving_chunks(
    feed: Feed, rows: StreamRows, tmp_path: pathlib.Path
) -> None:
    columns = rows.columns()
    feed.chunk(1, 2)
    assert ids_of(next(columns)) == [1, 2] and (rows.taken, rows.passed) == (2, 0)
    feed.chunk(3)
    assert ids_of(next(columns)) == [3] and (rows.taken, rows.passed) == (3, 2)
    feed.end()
    assert list(columns) == [] and rows.passed == 3
    assert os.listdir(tmp_path) == []


def test_chunks_that_wait_for_the_script_are_not_taken(feed: Feed, rows: StreamRows) -> None:
    for ids in ([1, 2], [3], [4, 5]):
        feed.chunk(*ids)
    feed.end()
    wait_until(lambda: rows.count == 5, "all have arrived")
    columns = rows.columns()
    assert [(ids_of(each), rows.taken, rows.passed) for each in columns] == [
        ([1, 2], 2, 0),
        ([3], 3, 2),
        ([4, 5], 5, 3),
    ]
    assert rows.passed == 5


def test_rows_are_finished_when_the_script_asks_for_the_next_ones(
    feed: Feed, rows: StreamRows
) -> None:
    told: list[int] = []
    rows.on_finished = told.append
    columns = rows.columns()
    feed.chunk(1, 2)
    feed.chunk(3)
    assert ids_of(next(columns)) == [1, 2] and told == []
    assert ids_of(next(columns)) == [3] and told == [2]
    feed.end()
    assert list(columns) == [] and told == [2, 3]


def test_a_slow_script_stops_the_reader(tmp_path: pathlib.Path) -> None:
    size, given = HELD_BYTES // 4, []

    def chunks() -> Iterator[Chunk]:
        for number in range(20):
            given.append(number)
            yield chunk_of({"id": [b"x" * size]}, {"id": "BYTES"})

    rows = StreamRows(str(tmp_path), chunks(), COLUMNS)
    wait_until(lambda: len(given) == 5, "one more than may be held is read")
    assert not threading.Event().wait(0.2) and len(given) == 5
    next(rows.columns())
    wait_until(lambda: len(given) > 5, "there is room again")


def test_a_second_scan_gives_no_rows_and_one_warning(
    feed: Feed, rows: StreamRows, caplog: pytest.LogCaptureFixture
) -> None:
    feed.chunk(1)
    feed.end()
    assert len(list(rows.segments())) == 1 and not caplog.records
    assert list(rows.segments()) == [] and list(rows.columns()) == []
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "can be read once, and this second pass yields no rows" in caplog.text


@pytest.mark.parametrize("attribute", ["file", "length"])
def test_a_stream_has_no_file(rows: StreamRows, attribute: str) -> None:
    with pytest.raises(RuntimeError, match=r"dataset_fn\(\)"):
        getattr(rows, attribute)()


def test_broken_channel_is_an_error_after_the_received_rows(feed: Feed, rows: StreamRows) -> None:
    segments = rows.segments()
    feed.chunk(1)
    assert ids_in(next(segments)) == [1]
    feed.put(ValueError("cut"))
    with pytest.raises(ChannelError, match="did not arrive completely: cut"):
        next(segments)


def test_missing_rows_are_an_error(feed: Feed, rows: StreamRows) -> None:
    feed.chunk(1)
    feed.end(rows=2)
    with pytest.raises(ChannelError, match="expected 2 rows"):
        list(rows.segments())


def test_wait_for_progress_returns_when_rows_have_been_read(feed: Feed, rows: StreamRows) -> None:
    assert rows.progress().rows_read == 0
    feed.chunk(1, 2, 3)
    next(rows.segments())
    rows.wait_for_progress(60)
    assert rows.progress().rows_read == 3


class _Writer:
    def __init__(self) -> None:
        self.committed = []

    def loosen(self) -> None:
        """Rows of segments are not known to be finished."""

    def cut(self, rows: int, state: bytes = b"", at_once: bool = False) -> None:
        self.committed += [rows] if rows not in self.committed else []


def task_config(rows: StreamRows, commits: bool = True) -> StreamTaskConfig:
    given, writer = dict.fromkeys(("tf_context", "cluster", "work_dir", "user_params")), _Writer()
    cuts = Cuts(rows, writer, Task(commits=commits))
    return StreamTaskConfig(
        output_writer=writer,
        rows=rows,
        cuts=cuts,
        num_workers=1,
        task_type="chief",
        task_index=0,
        **given,
    )


def test_commit_counts_finished_chunks_or_the_given_rows(feed: Feed, rows: StreamRows) -> None:
    config, segments = task_config(rows), rows.segments()
    feed.chunk(1, 2)
    next(segments)
    config.commit()  # the chunk is begun, nobody knows how far the script is
    assert config.output_writer.committed == [0]
    config.commit(1)
    config.commit(0)
    assert config.output_writer.committed == [0, 1]
    feed.chunk(3, 4, 5)
    next(segments)
    config.commit()
    assert config.output_writer.committed == [0, 1, 2]
    config.commit(2)
    config.commit()  # less than was committed by number
    assert config.output_writer.committed == [0, 1, 2, 4]
    with pytest.raises(
        ValueError, match="4 rows were committed before, and the dataset has yielded 5"
    ):
        config.commit(2)


def test_commit_is_refused_without_replay_of_uncommitted_rows(rows: StreamRows) -> None:
    with pytest.raises(RuntimeError, match='needs replay="uncommitted"'):
        task_config(rows, commits=False).commit()


@pytest.mark.parametrize(("size", "expected"), [(1 << 20, [1, 2, 3]), (0, [3])])
def test_last_rows_are_kept_up_to_the_size_asked_for(
    feed: Feed, rows: StreamRows, size: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_rows, "LAST_BYTES", size)
    columns = rows.columns()
    feed.chunk(0)
    next(columns)
    assert rows.last() == []
    rows.keeps_last = True
    for number in (1, 2, 3):
        feed.chunk(number)
        next(columns)
    assert [ids_of(Rows.FromString(each))[0] for _, each in rows.last()] == expected


def test_event_time_is_the_latest_of_the_chunks_that_are_finished(
    feed: Feed, tmp_path: pathlib.Path
) -> None:
    rows = StreamRows(str(tmp_path), feed, COLUMNS, time_column="id")
    for chunk in ((5, 9), (7, 6), (11, 10)):
        feed.chunk(*chunk)
    feed.end()
    list(rows.columns())
    assert [rows.time_of(end) for end in (1, 3, 4, 6)] == [0, 9, 9, 11]
