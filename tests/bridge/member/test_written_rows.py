"""Written rows on their way to Flink, in memory and on disk."""

from __future__ import annotations

import os
import pathlib

import pytest

from akdl.wire import Column, Output, Rows
from bridge.member import written_rows
from bridge.member.written_rows import WrittenQueue


def _output(number: int, cut: int = 0, state: bytes = b"") -> Output:
    return Output(rows=Rows(rows=1, columns=[Column(name=str(number))]), cut=cut, state=state)


def _taken(queue: WrittenQueue) -> list[int | str]:
    """Return the names of the rows, and the numbers of the cuts."""
    return [each.cut or each.take().columns[0].name for each in queue.take()]


def test_rows_are_released_up_to_the_latest_cut() -> None:
    queue = WrittenQueue(holds=True)
    queue.add(_output(1))
    assert not queue and queue.take() == [] and queue.ready_bytes == 0
    queue.add(_output(2, cut=7))
    queue.add(_output(3))
    assert queue and queue.ready_bytes > 0 and _taken(queue) == ["1", 7]
    queue.add(Output(cut=9, state=b"weights"))
    *_, cut = queue.take()
    assert (cut.cut, cut.state, cut.count) == (9, b"weights", 0)
    queue.add(_output(4))
    queue.release()
    assert _taken(queue) == ["4"]


def test_rows_are_released_immediately_by_default() -> None:
    queue = WrittenQueue()
    queue.add(_output(1))
    assert _taken(queue) == ["1"]
    queue.add(_output(2, cut=3))
    assert _taken(queue) == [3, "2"]


def test_rows_are_released_once_no_more_cuts_are_expected() -> None:
    queue = WrittenQueue(holds=True)
    queue.add(_output(1))
    queue.add(Output(loose=True))
    queue.add(_output(2))
    assert _taken(queue) == ["1", "2"]
    queue.add(_output(3, cut=5))
    assert _taken(queue) == [5] and not queue, "a commit has come after all"


def test_rows_that_wait_for_long_are_on_disk_and_leave_no_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_rows, "MOST_HELD_BYTES", 10)
    queue = WrittenQueue(holds=True, folder=str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    for number in range(20):
        queue.add(_output(number))
    assert len(os.listdir("/proc/self/fd")) == before + 1, "they wait in a file"
    assert not queue and list(tmp_path.iterdir()) == [], "which has no name"
    queue.add(_output(20, cut=1))
    assert _taken(queue) == [*map(str, range(20)), 1]
    assert len(os.listdir("/proc/self/fd")) == before
