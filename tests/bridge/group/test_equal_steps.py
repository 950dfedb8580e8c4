"""Shares are made equal without losing or inventing a row by accident."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from bridge.codec.ipc import read_batch, write_batch
from bridge.exceptions import BridgeError
from bridge.group.equal_steps import HELD_ROWS, Tail


def rows(count: int, start: int = 0) -> Any:
    ids = pa.array(range(start, start + count), pa.int64())
    return pa.record_batch([ids, pa.array([1.0] * count, pa.float32())], names=["id", "w"])


def read(batches: list[Any]) -> list[Any]:
    return [(row["id"], row["w"]) for batch in batches for row in batch.to_pylist()]


def ids(batches: list[Any]) -> list[Any]:
    return [number for number, _ in read(batches)]


@pytest.mark.parametrize("mode", ["off", "pad", "repeat"])
def test_rows_pass_immediately_where_no_step_can_be_too_many(mode: str) -> None:
    tail, batch = Tail(mode, "w"), rows(2)
    assert tail.push(batch) == [batch]
    assert tail.finish([2, 2], 2, b"") == []


def test_repeat_cycles_through_the_last_rows() -> None:
    tail = Tail("repeat")
    tail.push(rows(3))
    tail.push(rows(2, start=3))
    assert ids(tail.finish([10, 5], 5, b"")) == [3, 4, 3, 4, 3]


def test_padded_rows_have_weight_0() -> None:
    tail = Tail("pad", "w")
    tail.push(rows(1, start=7))
    assert read(tail.finish([3, 1], 1, b"")) == [(7, 0.0), (7, 0.0)]


def test_share_without_rows_repeats_a_row_of_another_worker() -> None:
    assert ids(Tail("repeat").finish([2, 0], 0, write_batch(rows(1, start=9)))) == [9, 9]


def test_shares_without_any_rows_end_without_steps() -> None:
    assert Tail("pad", "w").finish([0, 0], 0, b"") == []
    assert Tail("drop").finish([0, 0], 0, b"") == []


@pytest.mark.parametrize("sizes", [(300, 300), (300, 299), (300, 300 - HELD_ROWS), (50, 0)])
def test_drop_leaves_out_the_last_rows_and_keeps_the_order(sizes: tuple[int, int]) -> None:
    own, other = sizes
    tail, passed = Tail("drop"), []
    for start in range(0, own, 7):
        size = min(7, own - start)
        passed += tail.push(rows(size, start))
    passed += tail.finish([own, other], own, b"")
    assert ids(passed) == list(range(other))


def test_drop_refuses_shares_that_differ_by_more_than_round_robin_makes() -> None:
    tail = Tail("drop")
    for start in range(0, 300, 10):
        tail.push(rows(10, start))
    with pytest.raises(BridgeError, match="got 300; set 'pad' or 'repeat'"):
        tail.finish([300, 0], 300, b"")


def test_sample_is_the_first_row() -> None:
    tail = Tail("pad", "w")
    assert tail.sample == b""
    tail.push(rows(2))
    assert read([read_batch(tail.sample)]) == [(0, 1.0)]
