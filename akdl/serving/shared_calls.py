"""Calls of a model that several requests share, because a call takes hardly longer for many rows
than for one.

The model process uses it for all tasks of a host, and `akdl serve` for its clients. A request that
finds the model idle is predicted at once. Requests that arrive meanwhile wait for the end of that
call, or until they fill a batch, and are then predicted together. So nothing waits for a timer: an
idle model adds no delay, and the batches of a busy one grow.
"""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Callable, Deque, Dict, List, Mapping, NamedTuple, Tuple

from akdl.serving.loaded_model import BadRow
from akdl.serving.model import ServedBy, WatchedCall
from akdl.wire.columns import Values
from akdl.wire.row_parts import gathered

Predicted = Tuple[Dict[str, Values], List[BadRow], ServedBy]
"""Result columns, the bad rows with their errors, and the version of the model."""
Predict = Callable[[Mapping[str, Values], int, WatchedCall], Predicted]
"""Predicts columns with this number of rows, which belong to the requests of a call."""


class _Request(NamedTuple):
    columns: Mapping[str, Values]
    rows: int
    name: str
    result: Future[Predicted]


class SharedCalls:
    """Predicts requests with the same columns, several in one call. Thread-safe.

    A request gets the rows, the bad rows and the errors of its own, as if it had been predicted
    alone. After a call that fails as a whole, each of its requests is repeated alone, because only
    one of them may be the cause.

    Args:
        predict: The call. It is made in the thread of a request, or in one of this object.
        most_rows: Rows of a call of several requests; 0 if each request needs a call of its own. A
            larger request is a call of its own.
        at_once: Calls at the same time, of which all but the first have `most_rows`.
    """

    def __init__(self, predict: Predict, most_rows: int, at_once: int) -> None:
        self._predict, self._most_rows, self._at_once = predict, most_rows, at_once
        self._lock = threading.Lock()
        self._waiting: Deque[_Request] = deque()
        self._running = 0
        self._threads = ThreadPoolExecutor(at_once, "akdl-calls")

    def predict(self, columns: Mapping[str, Values], rows: int, name: str = "") -> Predicted:
        """Predict rows of a request with a name, in this thread if they do not have to wait."""
        request, batch = self._added(columns, rows, name)
        if batch:
            self._run(batch)
        return request.result.result()

    def submit(self, columns: Mapping[str, Values], rows: int) -> Future[Predicted]:
        """Let another thread predict rows. A result that is cancelled takes them out again."""
        request, batch = self._added(columns, rows)
        if batch:
            self._threads.submit(self._run, batch)
        return request.result

    def rows_waiting(self) -> int:
        """Rows of no call yet."""
        # `list` copies the queue in one step of the interpreter, whereas a loop over the queue
        # itself would fail when another thread changes it meanwhile.
        return sum(each.rows for each in list(self._waiting) if not each.result.done())

    def _added(
        self, columns: Mapping[str, Values], rows: int, name: str = ""
    ) -> tuple[_Request, list[_Request]]:
        """Let a request wait; return it, and the requests of a call that can begin now."""
        request = _Request(columns, rows, name, Future())
        with self._lock:
            self._waiting.append(request)
            # A full batch gains nothing by waiting, so calls run side by side under a heavy load.
            begins = not self._running or (
                self._running < self._at_once and self.rows_waiting() >= self._most_rows
            )
            return request, self._taken() if begins else []

    def _taken(self) -> list[_Request]:
        """Take the requests of the next call out of the queue. The caller holds the lock."""
        batch: list[_Request] = []
        rows = 0
        while self._waiting and (not batch or rows + self._waiting[0].rows <= self._most_rows):
            request = self._waiting.popleft()
            # False if the result was cancelled. From now on it cannot be.
            if request.result.set_running_or_notify_cancel():
                batch.append(request)
                rows += request.rows
        self._running += bool(batch)
        return batch

    def _run(self, batch: list[_Request]) -> None:
        self._attempt(batch)
        with self._lock:
            self._running -= 1
            waiting = self._taken()
        # Another thread goes on, because this one has an answer to return.
        if waiting:
            self._threads.submit(self._run, waiting)

    def _attempt(self, batch: list[_Request]) -> None:
        """Predict requests together, and give each one its rows and its errors."""
        rows = sum(each.rows for each in batch)
        try:
            # Columns without nulls are arrays, others are lists, so a column may be both here.
            merged = {
                name: gathered([(range(each.rows), each.columns[name]) for each in batch], rows)
                for name in batch[0].columns
            }
            call = WatchedCall(requests=[(each.name, each.rows) for each in batch])
            results, bad, served_by = self._predict(merged, rows, call)
        # A request must get an answer, whatever a model raises.
        except BaseException as error:
            if len(batch) == 1:
                batch[0].result.set_exception(error)
            else:
                for each in batch:
                    self._attempt([each])
            return
        start = 0
        for each in batch:
            end = start + each.rows
            own = {name: cells[start:end] for name, cells in results.items()}
            each.result.set_result(
                (own, [(row - start, text) for row, text in bad if start <= row < end], served_by)
            )
            start = end
