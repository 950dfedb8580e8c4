"""A candidate next to the model in use: it predicts a share of the rows too, and predicts all of them while it agrees."""

import logging
import threading
import zlib
from typing import Callable, Dict, List, Mapping, Sequence, Tuple

import numpy as np

from akdl.serving.keyed_models import taken
from akdl.serving.live_model import LiveModel
from akdl.serving.model import gathered
from akdl.serving.prediction_errors import BadRow
from akdl.serving.stalled_batches import UNWATCHED, WatchedCall
from akdl.wire import Serving
from akdl.wire.cells import Array, as_array
from akdl.wire.columns import Values

Report = Callable[[int, str], None]

PREFIX = "shadow_"
_ODD, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


class ShadowedModel:
    """Two models, of which one predicts all rows, and the other one a share of them. Thread-safe.

    Results of the other one are in columns with a prefix, and count as equal within `candidate_tolerance`. After each
    `candidate_rows` rows of both, the candidate predicts if `candidate_agreement` of them were equal, else the first model. A
    row that the candidate refuses and the first model predicts makes the first one predict at once, and fails nothing.
    """

    def __init__(self, models: Tuple[LiveModel, LiveModel], serving: Serving, outputs: Sequence[str], report: Report) -> None:
        self._models, self._rule, self._outputs, self._report = models, serving, list(outputs), report
        self._all = [*outputs, *([serving.model_column] if serving.model_column else [])]
        self._lock = threading.Lock()
        self._leader = self._seen = self._agreed = 0

    def predict_collecting(
        self, columns: Mapping[str, Values], rows: int, call: WatchedCall = UNWATCHED
    ) -> Tuple[Dict[str, Values], List[BadRow], int]:
        """Like `LiveModel.predict_collecting`."""
        leader = self._leader
        results, bad, number = self._models[leader].predict_collecting(columns, rows, call)
        errors, chosen = dict(bad), (hashes(columns, rows) >> np.uint64(11)) < self._rule.candidate_share * 2.0**53
        if leader:
            chosen[list(errors)] = True
        places: Array = np.flatnonzero(chosen)
        shadow: Dict[str, Values] = {key: [] for key in self._all}
        refused: List[BadRow] = []
        if len(places):
            own = {name: taken(cells, places) for name, cells in columns.items()}
            shadow, refused, _ = self._models[1 - leader].predict_collecting(own, len(places), call.within(places))
        equal = np.ones(len(places), bool)
        for name in self._outputs:
            equal &= _equal(taken(results[name], places), shadow[name], self._rule.candidate_tolerance)
            results[PREFIX + name] = gathered([(places, shadow[name])], rows)
        equal[[row for row, _ in refused] if leader else np.isin(places, list(errors))] = True  # nothing to compare with
        rescued = sorted(errors.keys() - {int(places[row]) for row, _ in refused}) if leader else []
        for row in rescued:
            del errors[row]
            for name in self._all:
                results[name][row] = shadow[name][int(np.searchsorted(places, row))]
        self._choose(leader, equal, bool(rescued))
        return results, sorted(errors.items()), number

    def _choose(self, leader: int, equal: Array, is_refused: bool) -> None:
        rule = self._rule
        with self._lock:
            if leader != self._leader:
                return  # it has changed meanwhile
            self._seen, self._agreed = self._seen + len(equal), self._agreed + int(equal.sum())
            if not rule.candidate_rows or (self._seen < rule.candidate_rows and not is_refused):
                return
            seen, agreed, self._seen, self._agreed = self._seen, self._agreed, 0, 0
            self._leader = int(agreed >= rule.candidate_agreement * seen and not is_refused)
            if leader == self._leader:
                return
        names = [each.name for each in self._models]
        what = f"the candidate {names[1]} takes over from" if self._leader else f"the candidate {names[1]} goes back to"
        told = f"{what} the model {names[0]}: they agreed in {agreed} of {seen} rows"
        self._report(logging.INFO, told + is_refused * ", and it refused a row that the model predicts")

    def remove_files(self) -> None:
        """Remove the files of unpacked models."""
        for each in self._models:
            each.remove_files()


def hashes(columns: Mapping[str, Values], rows: int) -> Array:
    """Hashes of rows by their cells alone, so that a row is always in a share or never."""
    total = np.zeros(rows, np.uint64)
    for name in sorted(columns):
        cells = columns[name]
        if isinstance(cells, np.ndarray) and cells.dtype != object:
            found = _of_numbers(cells.reshape(rows, -1))
        else:
            found = np.fromiter(map(_of_cell, cells), np.uint64, rows)
        total = (total ^ found) * _MIX
    return (total ^ (total >> np.uint64(31))) * _ODD


def _of_numbers(cells: Array) -> Array:
    bits = np.ascontiguousarray(cells, "f8").view(np.uint64)
    bits = (bits ^ (bits >> np.uint64(29))) * _ODD
    powers = np.cumprod(np.full(bits.shape[1], _MIX))
    return (bits ^ (bits >> np.uint64(32))) @ powers


def _of_cell(cell: object) -> int:
    if cell is None or isinstance(cell, (str, bytes)):
        return zlib.crc32((cell or "").encode() if isinstance(cell, str) or cell is None else cell)
    array = as_array(cell)
    return zlib.crc32(repr(cell).encode()) if array.dtype.kind not in "biuf" else int(_of_numbers(array.reshape(1, -1))[0])


def _equal(ours: Values, others: Values, tolerance: float) -> Array:
    if isinstance(ours, np.ndarray) and isinstance(others, np.ndarray) and ours.shape == others.shape:
        return np.isclose(ours, others, tolerance, tolerance, True).reshape(len(ours), -1).all(axis=1)
    return np.fromiter((_is_equal(*cells, tolerance) for cells in zip(ours, others)), bool, len(ours))


def _is_equal(ours: object, other: object, tolerance: float) -> bool:
    arrays = as_array(ours), as_array(other)
    try:
        return arrays[0].shape == arrays[1].shape and bool(np.allclose(*arrays, tolerance, tolerance, True))
    except TypeError:  # of texts and nulls
        return bool(np.array_equal(*arrays))
