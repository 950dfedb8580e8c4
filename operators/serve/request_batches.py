"""Batches across requests: rows that wait at the same time are predicted in one call.

A model takes hardly longer for many rows than for one, so this is the throughput of the server.
Threads: the event loop calls `submit`, and one thread predicts.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field

from akdl.serving.loaded_model import BadRow, RowsError, ServingError
from akdl.wire.columns import Values
from akdl.wire.row_parts import gathered
from operators.serve.rest_messages import RefusedRequest

Predict = Callable[[Mapping[str, Values], int], tuple[dict[str, Values], list[BadRow]]]

# This is the largest batch. A small request waits for one batch of a large one at most, so a larger
# number would delay it.
_MOST_ROWS = 256
# Further requests are refused when the next batches of all waiting requests have this many rows. Of
# a large request only the next `_MOST_ROWS` count, because it lets the others go first after each
# of its batches.
_MOST_WAITING = 8192


@dataclass(eq=False)
class _WaitingRows:
    """Rows of one request: those before `start` are predicted, their results are in `parts`.

    `result` is done by the predicting thread, or cancelled by the event loop when the client
    leaves.
    """

    columns: Mapping[str, list[object]]
    rows: int
    # The rows before this one are predicted.
    start: int = 0
    parts: list[tuple[range, dict[str, Values]]] = field(default_factory=list)
    result: Future[Mapping[str, Values]] = field(default_factory=Future)

    @property
    def next(self) -> range:
        """The rows for the next batch."""
        return range(self.start, min(self.rows, self.start + _MOST_ROWS))

    def end(self, outcome: Mapping[str, Values] | BaseException) -> None:
        """Report the outcome, unless the request has one or was given up."""
        # Setting the result of a cancelled future would raise. `set_running_or_notify_cancel`
        # returns False for one, and from then on the event loop can no longer cancel it.
        if self.result.done() or not self.result.set_running_or_notify_cancel():
            return
        if isinstance(outcome, BaseException):
            self.result.set_exception(outcome)
        else:
            self.result.set_result(outcome)


class RequestBatches:
    """Predicts in one thread, one batch after the other; requests that arrive meanwhile form the
    next batch.

    A request with more rows than a batch waits again after each of its batches, so that the others
    wait for one only. A result that is cancelled takes its rows out of the queue.

    Args:
        predict: Predicts columns with this number of rows.
        took: Called with the number of rows of each batch.
        predict_values: Predicts one row, whose cells are all values of a request. It is called if
            `predict` raises a ServingError because an output has no value for each row.
        has_rows: False for a model without rows: each request is one such row.
    """

    def __init__(
        self,
        predict: Predict,
        took: Callable[[int], None],
        predict_values: Predict | None = None,
        has_rows: bool = True,
    ) -> None:
        self._predict, self._took, self._predict_values, self._has_rows = (
            predict,
            took,
            predict_values,
            has_rows,
        )
        self._changed = threading.Condition()
        self._waiting: deque[_WaitingRows] = deque()
        self._since: float | None = None
        # The thread is a daemon, so that the end of the program does not wait for a slow model.
        threading.Thread(target=self._run, name="akdl-predict", daemon=True).start()

    def submit(self, columns: Mapping[str, list[object]]) -> Future[Mapping[str, Values]]:
        """Let rows wait for the next batch; called by the event loop.

        The future is done by the predicting thread.

        Raises:
            RefusedRequest: Too many rows are waiting. The status is 503, on which clients try
                again.
        """
        waiting = _WaitingRows(columns, len(next(iter(columns.values()))))
        with self._changed:
            # Rows of clients that left would otherwise count against new requests.
            self._waiting = deque(each for each in self._waiting if not each.result.done())
            ahead = sum(len(each.next) for each in self._waiting)
            if self._waiting and ahead + len(waiting.next) > _MOST_WAITING:
                raise RefusedRequest(
                    f"{ahead} rows are waiting for the model: try again later", 503
                )
            self._waiting.append(waiting)
            self._changed.notify()
        return waiting.result

    def rows_waiting(self) -> int:
        """Rows of no batch yet."""
        # The event loop calls this without the lock. `list` copies the queue in one step of the
        # interpreter, whereas a loop over the queue itself would fail when the other thread changes
        # it meanwhile.
        return sum(each.rows - each.start for each in list(self._waiting) if not each.result.done())

    def busy_s(self) -> float:
        """Seconds since the running batch began."""
        since = self._since
        return 0.0 if since is None else time.monotonic() - since

    def _run(self) -> None:
        while True:
            batch: list[_WaitingRows] = []
            rows = 0
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                while self._waiting and (
                    not batch or rows + len(self._waiting[0].next) <= _MOST_ROWS
                ):
                    each = self._waiting.popleft()
                    if not each.result.done():
                        batch.append(each)
                        # A request without rows cannot share a call with others, so it counts as a
                        # full batch.
                        rows += len(each.next) if self._has_rows else _MOST_ROWS
            if batch:
                self._attempt(batch, self._predict_rows if self._has_rows else self._predict_one)

    def _attempt(
        self, batch: list[_WaitingRows], predict: Callable[[list[_WaitingRows]], None]
    ) -> None:
        """Predict; after an error each request alone, because only one of them may be the cause."""
        self._since = time.monotonic()
        try:
            predict(batch)
        except BaseException as error:
            if len(batch) > 1:
                for each in batch:
                    self._attempt([each], predict)
            elif (
                # The error may mean that some output is not one value per row, so the request is
                # tried once more as one row with all values. Each access to a method makes another
                # object, so the methods are compared by value.
                isinstance(error, ServingError)
                and self._predict_values
                and predict != self._predict_one
            ):
                self._attempt(batch, self._predict_one)
            else:
                batch[0].end(error)
        self._since = None

    def _predict_rows(self, batch: list[_WaitingRows]) -> None:
        """Predict the next rows of some requests, and give each request its results and errors."""
        rows, start = sum(len(each.next) for each in batch), 0
        self._took(rows)
        merged = {
            name: [each.columns[name][row] for each in batch for row in each.next]
            for name in batch[0].columns
        }
        results, bad = self._predict(merged, rows)
        for each in batch:
            end, first = start + len(each.next), each.start
            own = [(row - start + first, message) for row, message in bad if start <= row < end]
            each.parts.append(
                (each.next, {name: column[start:end] for name, column in results.items()})
            )
            start, each.start = end, each.next.stop
            if own:
                each.end(RowsError(own))
            elif each.start == each.rows:
                each.end(
                    {
                        name: gathered(
                            [(part, cells[name]) for part, cells in each.parts], each.rows
                        )
                        for name in results
                    }
                )
            else:
                with self._changed:
                    # The rest goes to the end of the queue, so that a large request takes turns
                    # with small ones.
                    self._waiting.append(each)

    def _predict_one(self, batch: list[_WaitingRows]) -> None:
        """Predict one request as one row with all of its values."""
        self._took(1)
        columns = batch[0].columns
        if self._has_rows:
            columns = {name: [column] for name, column in columns.items()}
        results, bad = (self._predict_values or self._predict)(columns, 1)
        for _, message in bad:
            raise ServingError(message)
        batch[0].end({name: column[0] for name, column in results.items()})
