"""Requests that wait at the same time share a call of the model."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from akdl.serving.model import WatchedCall
from akdl.serving.shared_calls import Predicted, SharedCalls
from akdl.wire.columns import Values
from tests.support.leftovers import DEADLINE_S, wait_until


class Doubling:
    """Doubles numbers once it may; 13 is a bad row, and with 99 the whole call fails."""

    def __init__(self, most_rows: int, at_once: int = 1) -> None:
        self.goes_on, self.began = threading.Event(), threading.Event()
        self.called: list[list[object]] = []
        self.calls = SharedCalls(self.predict, most_rows, at_once)

    def predict(self, columns: Mapping[str, Values], rows: int, call: WatchedCall) -> Predicted:
        x = list(columns["x"])
        assert rows == len(x) == sum(count for _, count in call.requests)
        self.called.append(x)
        self.began.set()
        assert self.goes_on.wait(DEADLINE_S)
        if 99 in x:
            raise ValueError("99")
        bad = [(row, "unlucky") for row, cell in enumerate(x) if cell == 13]
        return {"y": [None if cell is None else 2 * cell for cell in x]}, bad, 7

    def submit(self, *x: object) -> Future[Predicted]:
        return self.calls.submit({"x": list(x)}, len(x))


def test_requests_that_wait_share_a_call_and_get_their_own_rows_and_errors() -> None:
    model = Doubling(256)
    first = model.submit(1)
    assert model.began.wait(DEADLINE_S)
    with_null, unlucky = model.submit(2, None), model.submit(4, 13)
    # The same column is an array where it has no nulls.
    plain = model.calls.submit({"x": np.array([5, 6])}, 2)
    given_up = model.submit(99)
    assert model.calls.rows_waiting() == 7 and given_up.cancel()
    assert model.calls.rows_waiting() == 6
    model.goes_on.set()
    assert first.result(DEADLINE_S) == ({"y": [2]}, [], 7)
    assert with_null.result(DEADLINE_S) == ({"y": [4, None]}, [], 7)
    assert unlucky.result(DEADLINE_S) == ({"y": [8, 26]}, [(1, "unlucky")], 7)
    assert plain.result(DEADLINE_S) == ({"y": [10, 12]}, [], 7)
    assert model.called == [[1], [2, None, 4, 13, 5, 6]]


@pytest.mark.fault(
    "prediction", "A request that makes the model fail harms no request of the same call"
)
def test_the_requests_of_a_failed_call_are_repeated_alone() -> None:
    model = Doubling(256)
    first = model.submit(1)
    assert model.began.wait(DEADLINE_S)
    hostile, good = model.submit(2, 99), model.submit(3)
    model.goes_on.set()
    assert first.result(DEADLINE_S)[0] == {"y": [2]} and good.result(DEADLINE_S)[0] == {"y": [6]}
    with pytest.raises(ValueError, match="99"):
        hostile.result(DEADLINE_S)
    assert model.called == [[1], [2, 99, 3], [2, 99], [3]]
    assert model.submit(4).result(DEADLINE_S)[0] == {"y": [8]}, "the model is idle again"


def test_a_full_batch_does_not_wait_and_a_call_takes_whole_requests() -> None:
    model = Doubling(4, at_once=2)
    model.submit(1)
    assert model.began.wait(DEADLINE_S)
    requests = [model.submit(2, 2), model.submit(3)]
    assert model.called == [[1]], "three rows of four wait"
    answers: list[Any] = []
    thread = threading.Thread(
        target=lambda: answers.append(model.calls.predict({"x": [4, 4]}, 2)), daemon=True
    )
    thread.start()
    wait_until(lambda: len(model.called) == 2, "the full batch")
    assert model.called[1] == [2, 2, 3] and model.calls.rows_waiting() == 2
    larger = model.submit(5, 5, 5, 5, 5)
    model.goes_on.set()
    assert [len(each.result(DEADLINE_S)[0]["y"]) for each in (*requests, larger)] == [2, 1, 5]
    thread.join(DEADLINE_S)
    assert answers == [({"y": [8, 8]}, [], 7)]
    assert model.called[2:] in ([[4, 4], [5] * 5], [[5] * 5, [4, 4]])


def test_without_rows_to_share_each_request_is_a_call() -> None:
    model = Doubling(0)
    model.goes_on.set()
    requests = [model.submit(number) for number in (1, 2, 3)]
    assert [each.result(DEADLINE_S)[0]["y"] for each in requests] == [[2], [4], [6]]
    assert sorted(model.called) == [[1], [2], [3]]
