"""Which rows a checkpoint keeps, over restarts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from bridge.codec.ipc import write_batch
from bridge.flink.stream_exchange import Pending
from tests.support.flink_functions import MapState, ValueState


@pytest.fixture
def states() -> tuple[MapState, ValueState]:
    return MapState(), ValueState()


def chunk(rows: str) -> tuple[int, bytes]:
    return len(rows), write_batch(pa.record_batch([pa.array(list(rows))], names=["x"]))


def restored(pending: Pending) -> list[Any]:
    return ["".join(batch.column(0).to_pylist()) for batch in pending.restore()]


def test_unfinished_rows_are_restored(states: tuple[MapState, ValueState]) -> None:
    pending = Pending(*states)
    assert restored(pending) == []
    for rows in ("ab", "c", "def"):
        pending.add(*chunk(rows))
    pending.drop(3)
    assert pending.rows == 3 and len(states[0]) == 1
    assert restored(Pending(*states)) == ["def"]


def test_partly_finished_chunk_is_restored_without_its_beginning(
    states: tuple[MapState, ValueState],
) -> None:
    pending = Pending(*states)
    pending.restore()
    pending.add(*chunk("abc"))
    pending.drop(1)
    again = Pending(*states)
    assert restored(again) == ["bc"]
    # A script counts from its own start.
    again.drop(1)
    assert restored(Pending(*states)) == ["c"]
    again.add(*chunk("d"))
    again.drop(3)
    assert again.rows == 0 and not states[0]


def test_take_returns_unfinished_rows_and_removes_them(states: tuple[MapState, ValueState]) -> None:
    pending = Pending(*states)
    pending.add(*chunk("abc"))
    pending.add(*chunk("d"))
    pending.drop(1)
    other = Pending(*states)
    assert ["".join(batch.column(0).to_pylist()) for batch in other.take()] == [
        "bc",
        "d",
    ] and not states[0]
    assert other.take() == []


def test_row_numbers_continue_after_a_restart_without_pending_rows(
    states: tuple[MapState, ValueState],
) -> None:
    pending = Pending(*states)
    pending.restore()
    pending.add(*chunk("a"))
    pending.drop(1)
    again = Pending(*states)
    assert restored(again) == []
    again.add(*chunk("bc"))
    again.drop(0)
    assert again.rows == 2 and restored(Pending(*states)) == ["bc"]


def test_late_report_of_fewer_finished_rows_is_ignored(states: tuple[MapState, ValueState]) -> None:
    """A script that has been restarted counts from 0 again, and reports may come late."""
    pending = Pending(*states)
    pending.restore()
    pending.add(*chunk("abc"))
    pending.drop(2)
    pending.drop(1)
    assert pending.rows == 1 and restored(Pending(*states)) == ["c"]


def test_pending_bytes_count_unfinished_chunks(states: tuple[MapState, ValueState]) -> None:
    pending, (rows, arrow) = Pending(*states), chunk("abc")
    pending.add(rows, arrow)
    pending.add(rows, arrow)
    pending.drop(5)
    assert pending.bytes == len(arrow)
    again = Pending(*states)
    again.restore()
    assert again.bytes == len(arrow)
    again.drop(1)
    assert again.bytes == 0
