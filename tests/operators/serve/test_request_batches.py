"""Requests that wait at the same time share a call of the model."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from akdl.serving.loaded_model import BadRow, RowsError, ServingError
from akdl.wire.columns import Values
from operators.serve import request_batches
from operators.serve.request_batches import RequestBatches
from operators.serve.rest_messages import RefusedRequest
from tests.support.deadline import DEADLINE_S


class Doubling:
    """Doubles numbers once it may; the number 13 is a bad row, and 99 an error of the whole
    batch.
    """

    def __init__(self) -> None:
        self.goes_on, self.began = threading.Event(), threading.Event()
        self.sizes: list[int] = []
        self.batches = RequestBatches(self.predict, self.sizes.append)

    def predict(
        self, columns: Mapping[str, Values], rows: int
    ) -> tuple[dict[str, Values], list[BadRow]]:
        self.began.set()
        assert self.goes_on.wait(DEADLINE_S)
        if 99 in columns["x"]:
            raise ValueError("99")
        return {"y": [2 * x for x in columns["x"]]}, [
            (row, "unlucky") for row, x in enumerate(columns["x"]) if x == 13
        ]


def test_waiting_requests_share_a_batch_and_bad_rows_fail_their_own_request() -> None:
    model = Doubling()
    first = model.batches.submit({"x": [1]})
    assert model.began.wait(DEADLINE_S)
    others = [model.batches.submit({"x": x}) for x in ([2, 3], [4, 13], [5])]
    given_up = model.batches.submit({"x": [99]})
    assert model.batches.rows_waiting() == 6
    assert given_up.cancel() and model.batches.rows_waiting() == 5 and model.batches.busy_s() > 0
    model.goes_on.set()
    assert (
        first.result(DEADLINE_S) == {"y": [2]}
        and others[0].result(DEADLINE_S) == {"y": [4, 6]}
        and others[2].result(DEADLINE_S) == {"y": [10]}
    )
    with pytest.raises(RowsError, match="^row 1: unlucky$"):
        others[1].result(DEADLINE_S)
    assert model.sizes == [1, 5], "the request that was given up is in no batch"


def test_an_error_of_the_model_reaches_the_requests_of_its_batch() -> None:
    model = Doubling()
    model.goes_on.set()
    with pytest.raises(ValueError, match="99"):
        model.batches.submit({"x": [99]}).result(DEADLINE_S)
    assert model.batches.submit({"x": [1]}).result(DEADLINE_S) == {"y": [2]}
    assert model.batches.rows_waiting() == 0


@pytest.mark.fault(
    "prediction", "A request over REST that makes the model fail harms no request of the same batch"
)
def test_a_request_that_fails_is_predicted_apart_from_its_batch() -> None:
    model = Doubling()
    first = model.batches.submit({"x": [1]})
    assert model.began.wait(DEADLINE_S)
    hostile, good = model.batches.submit({"x": [2, 99]}), model.batches.submit({"x": [3]})
    model.goes_on.set()
    assert first.result(DEADLINE_S) == {"y": [2]} and good.result(DEADLINE_S) == {"y": [6]}
    with pytest.raises(ValueError, match="99"):
        hostile.result(DEADLINE_S)


@pytest.mark.fault(
    "prediction",
    "When too many rows wait for a slow model, a further request over REST is refused at once",
)
def test_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_batches, "_MOST_ROWS", 4)
    monkeypatch.setattr(request_batches, "_MOST_WAITING", 8)
    model = Doubling()
    running = model.batches.submit({"x": [1]})
    assert model.began.wait(DEADLINE_S)
    waiting = [model.batches.submit({"x": [2] * rows}) for rows in (3, 2, 3)]
    with pytest.raises(
        RefusedRequest, match="8 rows are waiting for the model: try again later"
    ) as refused:
        model.batches.submit({"x": [3]})
    assert refused.value.status == 503
    model.goes_on.set()
    assert [len(each.result(DEADLINE_S)["y"]) for each in (running, *waiting)] == [1, 3, 2, 3]
    assert model.sizes == [1, 3, 2, 3], "a batch takes whole requests"


@pytest.mark.fault(
    "prediction",
    "A request over REST with many rows lets other requests in between, and stops when it is given up",
)
def test_large_request_lets_other_requests_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_batches, "_MOST_ROWS", 4)
    monkeypatch.setattr(request_batches, "_MOST_WAITING", 8)
    model = Doubling()
    running = model.batches.submit({"x": [1]})
    assert model.began.wait(DEADLINE_S)
    large, given_up = (
        model.batches.submit({"x": list(range(14, 24))}),
        model.batches.submit({"x": [0] * 1000}),
    )
    with pytest.raises(RefusedRequest, match="8 rows are waiting"):
        model.batches.submit({"x": [3]})
    assert given_up.cancel() and model.batches.rows_waiting() == 10, (
        "its rows do not count any more"
    )
    small = model.batches.submit({"x": [3]})
    model.goes_on.set()
    assert running.result(DEADLINE_S) == {"y": [2]} and small.result(DEADLINE_S) == {"y": [6]}
    assert large.result(DEADLINE_S) == {"y": list(range(28, 48, 2))}
    assert model.sizes == [1, 4, 1, 4, 2]
    bad = model.batches.submit({"x": [1] * 5 + [13] * 20})
    with pytest.raises(RowsError, match="^row 5: unlucky; row 6: unlucky; row 7: unlucky$"):
        bad.result(DEADLINE_S)
    assert model.sizes[5:] == [4, 4], "a request ends with its first bad batch"


def test_a_model_without_rows_gets_the_values_of_one_request_at_a_time() -> None:
    calls: list[Mapping[str, Values]] = []

    def predict(columns: Mapping[str, Values], rows: int) -> tuple[dict[str, Values], list[BadRow]]:
        calls.append(columns)
        if columns["x"] == [[13]]:
            return {"y": [None]}, [(0, "unlucky")]
        return {"y": [sum(columns["x"][0])]}, []

    batches = RequestBatches(predict, lambda rows: None, predict, has_rows=False)
    waiting = [batches.submit({"x": [x]}) for x in ([1, 2], [3], [13])]
    assert [each.result(DEADLINE_S) for each in waiting[:2]] == [{"y": 3}, {"y": 3}]
    with pytest.raises(ServingError, match="^unlucky$"):
        waiting[2].result(DEADLINE_S)
    assert calls == [{"x": [[1, 2]]}, {"x": [[3]]}, {"x": [[13]]}]


def test_an_output_that_turns_out_to_have_no_rows_is_predicted_from_the_values_of_each_request() -> (
    None
):
    def rows(columns: Mapping[str, Values], rows: int) -> tuple[dict[str, Values], list[BadRow]]:
        raise ServingError("no value per row")

    def values(columns: Mapping[str, Values], rows: int) -> tuple[dict[str, Values], list[BadRow]]:
        return {"y": [sum(columns["x"][0])]}, []

    batches = RequestBatches(rows, lambda rows: None, values)
    assert [
        each.result(DEADLINE_S) for each in [batches.submit({"x": x}) for x in ([1, 2], [3, 4])]
    ] == [{"y": 3}, {"y": 7}]
    with pytest.raises(ServingError, match="no value per row"):
        RequestBatches(rows, lambda rows: None).submit({"x": [1]}).result(DEADLINE_S)
