"""Batches across requests: rows that wait at the same time are predicted in one call."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import NamedTuple

from akdl.serving.prediction_errors import BadRow, RowsError
from akdl.wire.columns import Values
from operators.serve.rest_messages import RefusedRequest

Predict = Callable[[Mapping[str, Values], int], tuple[dict[str, Values], list[BadRow]]]

_MOST_ROWS = 256  # no request joins a batch of so many rows
_MOST_WAITING = 8192  # rows


class _WaitingRows(NamedTuple):
    columns: Mapping[str, list[object]]
    rows: int
    result: Future[Mapping[str, Values]]


class RequestBatches:
    """Predicts in one thread, one batch after the other; requests that arrive meanwhile form the next. `took` gets its rows."""

    def __init__(self, predict: Predict, took: Callable[[int], None]) -> None:
        self._predict, self._took = predict, took
        self._changed = threading.Condition()
        self._waiting: deque[_WaitingRows] = deque()
        self._since: float | None = None
        threading.Thread(target=self._run, name="akdl-predict", daemon=True).start()  # the end does not wait for a slow model

    def submit(self, columns: Mapping[str, list[object]]) -> Future[Mapping[str, Values]]:
        """Let rows wait for the next batch."""
        waiting = _WaitingRows(columns, len(next(iter(columns.values()))), Future())
        with self._changed:
            if self._waiting and self.rows_waiting() + waiting.rows > _MOST_WAITING:
                raise RefusedRequest(f"{self.rows_waiting()} rows are waiting for the model: try again later", 503)
            self._waiting.append(waiting)
            self._changed.notify()
        return waiting.result

    def rows_waiting(self) -> int:
        """Rows of no batch yet."""
        return sum(each.rows for each in list(self._waiting))

    def busy_s(self) -> float:
        """Seconds since the running batch began."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def _run(self) -> None:
        while True:
            batch: list[_WaitingRows] = []
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                while self._waiting and (not batch or sum(each.rows for each in batch) + self._waiting[0].rows <= _MOST_ROWS):
                    batch.append(self._waiting.popleft())
            batch = [each for each in batch if each.result.set_running_or_notify_cancel()]
            self._since = time.monotonic()
            try:
                if batch:
                    self._predict_all(batch)
            except BaseException as error:
                for each in batch:
                    if not each.result.done():
                        each.result.set_exception(error)
            self._since = None

    def _predict_all(self, batch: list[_WaitingRows]) -> None:
        rows, start = sum(each.rows for each in batch), 0
        self._took(rows)
        merged = {name: [cell for each in batch for cell in each.columns[name]] for name in batch[0].columns}
        results, bad = self._predict(merged, rows)
        for each in batch:
            end = start + each.rows
            own = [(row - start, message) for row, message in bad if start <= row < end]
            if own:
                each.result.set_exception(RowsError(own))
            else:
                each.result.set_result({name: column[start:end] for name, column in results.items()})
            start = end
