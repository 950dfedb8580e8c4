"""Runs a candidate model on a share of the rows of the current one, for columns that show how much they differ."""

import zlib
from typing import Dict, List, Mapping, Sequence, Tuple

import numpy as np

from akdl.serving.keyed_models import taken
from akdl.serving.live_model import LiveModel
from akdl.serving.model import gathered
from akdl.serving.prediction_errors import BadRow
from akdl.serving.stalled_batches import UNWATCHED, WatchedCall
from akdl.wire import Serving
from akdl.wire.cells import Array, as_array
from akdl.wire.columns import Values

PREFIX = "shadow_"
_ODD, _MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


class ShadowedModel:
    """Two models, of which one predicts all rows, and the other one a share of them. Thread-safe.

    The results of the candidate are in columns with a prefix, so that a user can compare them with those of the model in use.
    """

    def __init__(self, models: Tuple[LiveModel, LiveModel], serving: Serving, outputs: Sequence[str]) -> None:
        self._models, self._serving, self._outputs = models, serving, list(outputs)

    def predict_collecting(
        self, columns: Mapping[str, Values], rows: int, call: WatchedCall = UNWATCHED
    ) -> Tuple[Dict[str, Values], List[BadRow], int]:
        """Like `LiveModel.predict_collecting`. A row that the candidate refuses has nulls in its columns, and is no bad row."""
        model, candidate = self._models
        results, bad, number = model.predict_collecting(columns, rows, call)
        chosen = (hashes(columns, rows) >> np.uint64(11)) < self._serving.candidate_share * 2.0**53
        places: Array = np.flatnonzero(chosen)
        own = {name: taken(cells, places) for name, cells in columns.items()}
        shadow: Dict[str, Values] = {key: [] for key in self._outputs}
        if len(places):
            shadow, _, _ = candidate.predict_collecting(own, len(places), call.within(places))
        for name in self._outputs:
            results[PREFIX + name] = gathered([(places, shadow[name])], rows)
        return results, bad, number

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
