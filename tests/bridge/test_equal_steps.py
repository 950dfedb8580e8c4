"""Shares are made equal without losing or inventing a row by accident."""

from __future__ import annotations

import pytest

from akdl.packed import HEAD, TAIL
from akdl.wire import Example
from bridge.equal_steps import HELD_ROWS, Tail
from bridge.exceptions import BridgeError
from bridge.tfrecord import frame, frames


def rows(count, start=0):
    made = []
    for number in range(start, start + count):
        example = Example()
        example.features.feature["id"].int64_list.value.append(number)
        example.features.feature["w"].float_list.value.append(1.0)
        made.append(frame(example.SerializeToString()))
    return made


def read(chunks):
    features = []
    for count, records in chunks:
        found = [Example.FromString(row[HEAD:-TAIL]).features.feature for row in frames(records)]
        assert len(found) == count
        features += [(row["id"].int64_list.value[0], row["w"].float_list.value[0]) for row in found]
    return features


def ids(chunks):
    return [number for number, _ in read(chunks)]


@pytest.mark.parametrize("mode", ["off", "pad", "repeat"])
def test_rows_pass_at_once_where_none_can_be_too_many(mode):
    tail, chunk = Tail(mode, "w"), (2, b"".join(rows(2)))
    assert tail.push(*chunk) == [chunk]
    assert tail.finish([2, 2], 2, None) == []


def test_repeat_goes_round_the_last_rows():
    tail = Tail("repeat")
    tail.push(3, b"".join(rows(3)))
    tail.push(2, b"".join(rows(2, start=3)))
    assert ids(tail.finish([10, 5], 5, None)) == [3, 4, 3, 4, 3]


def test_pad_has_no_weight():
    tail = Tail("pad", "w")
    tail.push(1, b"".join(rows(1, start=7)))
    assert read(tail.finish([3, 1], 1, None)) == [(7, 0.0), (7, 0.0)]


def test_a_share_without_rows_takes_those_of_another():
    assert ids(Tail("repeat").finish([2, 0], 0, rows(1, start=9)[0])) == [9, 9]


def test_no_rows_at_all():
    assert Tail("pad", "w").finish([0, 0], 0, None) == []
    assert Tail("drop").finish([0, 0], 0, None) == []


@pytest.mark.parametrize("sizes", [(300, 300), (300, 299), (300, 300 - HELD_ROWS), (50, 0)])
def test_drop_leaves_out_the_last_rows_and_keeps_the_order(sizes):
    own, other = sizes
    tail, passed = Tail("drop"), []
    for start in range(0, own, 7):
        size = min(7, own - start)
        passed += tail.push(size, b"".join(rows(size, start)))
    passed += tail.finish([own, other], own, None)
    assert ids(passed) == list(range(other))


def test_drop_refuses_shares_that_differ_by_more_than_round_robin_makes():
    tail = Tail("drop")
    for start in range(0, 300, 10):
        tail.push(10, b"".join(rows(10, start)))
    with pytest.raises(BridgeError, match="shares differ by 300 rows"):
        tail.finish([300, 0], 300, None)


def test_sample():
    tail = Tail("pad", "w")
    assert tail.sample == b""
    tail.push(2, b"".join(rows(2)))
    assert tail.sample == rows(1)[0]
