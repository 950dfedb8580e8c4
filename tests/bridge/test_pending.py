"""Which rows a checkpoint keeps, over restarts."""

from __future__ import annotations

import pytest

from bridge.pending import Pending
from bridge.tfrecord import frame


class MapState(dict):
    """As much of Flink's state as is used, kept over restarts."""

    put = dict.__setitem__
    remove = dict.__delitem__


class ValueState:
    def __init__(self):
        self._value = None

    def value(self):
        return self._value

    def update(self, value):
        self._value = value


@pytest.fixture
def states():
    return MapState(), ValueState()


def chunk(*rows):
    return len(rows), b"".join(map(frame, rows))


def test_what_is_not_done_comes_again(states):
    pending = Pending(*states)
    assert pending.restore() == []
    for rows in ([b"a", b"b"], [b"c"], [b"d", b"e", b"f"]):
        pending.add(*chunk(*rows))
    pending.drop(3)
    assert pending.rows == 3 and len(states[0]) == 1
    assert Pending(*states).restore() == [chunk(b"d", b"e", b"f")]


def test_a_chunk_that_is_partly_done_comes_without_its_beginning(states):
    pending = Pending(*states)
    pending.restore()
    pending.add(*chunk(b"a", b"b", b"c"))
    pending.drop(1)
    again = Pending(*states)
    assert again.restore() == [chunk(b"b", b"c")]
    # A script counts from its own start.
    again.drop(1)
    assert Pending(*states).restore() == [chunk(b"c")]
    again.add(*chunk(b"d"))
    again.drop(3)
    assert again.rows == 0 and not states[0]


def test_rows_are_numbered_on_after_a_restart_without_rows(states):
    pending = Pending(*states)
    pending.restore()
    pending.add(*chunk(b"a"))
    pending.drop(1)
    again = Pending(*states)
    assert again.restore() == []
    again.add(*chunk(b"b", b"c"))
    again.drop(0)
    assert again.rows == 2 and Pending(*states).restore() == [chunk(b"b", b"c")]
