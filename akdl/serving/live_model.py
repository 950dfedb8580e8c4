"""A model that can be replaced while it predicts."""

import contextlib
import gc
import os
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Set, Tuple

from akdl.serving.model import ServedModel
from akdl.serving.model_folder import Model, ModelFolder
from akdl.serving.prediction_errors import BadRow, ServingError
from akdl.serving.stalled_batches import UNWATCHED, WatchedCall
from akdl.wire.columns import Values

_TRIAL_ROWS = 256


class LiveModel:
    """The current model. Thread-safe.

    One model predicts all of a batch. A new model is loaded next to the old one and predicts some of the latest rows as a
    trial, which also spares its first batch the slow first call; then it takes over. `model_column` gets the name of the model.
    """

    def __init__(self, path: Model, load: Callable[[str], ServedModel], name: str = "", model_column: str = "") -> None:
        self._load, self._model_column = load, model_column
        self._condition = threading.Condition()
        self._offers = threading.Lock()  # serializes offers
        self._sample: Optional[_Sample] = None
        self._current = self._loaded(
            path, name or os.path.basename(os.path.normpath(path if isinstance(path, str) else "table"))
        )

    @property
    def model(self) -> ServedModel:
        return self._current.model

    @property
    def name(self) -> str:
        return self._current.name

    def predict_collecting(
        self, columns: Mapping[str, Any], rows: int, call: WatchedCall = UNWATCHED
    ) -> Tuple[Dict[str, Values], List[BadRow], int]:
        """Predict, and return the number of the model too."""
        with self._in_use() as used:
            results, bad = used.model.predict_collecting(columns, rows, call)
        if rows:
            first = {name: column[:_TRIAL_ROWS] for name, column in columns.items()}
            self._sample = _Sample(first, min(rows, _TRIAL_ROWS), {row for row, _ in bad})
        if self._model_column:
            results[self._model_column] = [used.name] * rows
        return results, bad, used.number

    def offer(self, path: str, name: str) -> str:
        """Replace the model, and return a message for the log; the old one stays if the new one does not load or fit."""
        with self._offers:
            started = time.monotonic()
            new = self._loaded(path, name)
            try:
                self._try(new.model)
            except BaseException:
                new.close()
                raise
            seconds = time.monotonic() - started
            with self._condition:
                old, self._current = self._current, new
                new.number = old.number + 1
                self._condition.wait_for(lambda: not old.calls)
            old.close()
            gc.collect()  # a loaded model is a reference cycle; free its memory now
            return f"the model {new.name} took over from the model {old.name}, after {seconds:.1f} s of loading"

    def close(self) -> None:
        """Release the model. Safe to call twice."""
        self._current.close()

    def remove_files(self) -> None:
        self._current.folder.remove()

    def _loaded(self, path: Model, name: str) -> "_Loaded":
        folder = ModelFolder(path)
        try:
            return _Loaded(name, folder, self._load(folder.path))
        except BaseException:
            folder.remove()
            raise

    def _try(self, model: ServedModel) -> None:
        """Reject a model that cannot predict rows that its predecessor could."""
        sample = self._sample
        if sample is None:
            return
        _, bad = model.predict_collecting(sample.columns, sample.rows)
        for row, message in bad:
            if row not in sample.bad:
                raise ServingError(f"it cannot predict a row that the current model can: {message}")

    @contextlib.contextmanager
    def _in_use(self) -> Iterator["_Loaded"]:
        with self._condition:
            used = self._current
            used.calls += 1
        try:
            yield used
        finally:
            with self._condition:
                used.calls -= 1
                self._condition.notify_all()


class _Sample(NamedTuple):
    columns: Dict[str, Any]
    rows: int
    bad: Set[int]


@dataclass
class _Loaded:
    name: str
    folder: ModelFolder
    model: ServedModel
    calls: int = 0
    number: int = 1

    def close(self) -> None:
        self.model.close()
        self.folder.remove()
