"""A model for each value of a column: loaded when a row first needs it; the least recently used ones leave."""

import contextlib
import gc
import os
import re
import threading
import time
from dataclasses import dataclass
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from akdl.folders.owned_folder import OwnedFolder
from akdl.masking import shown
from akdl.serving.model import ServedModel, gathered
from akdl.serving.model_folder import ModelFolder
from akdl.serving.model_stream import ARCHIVES
from akdl.serving.prediction_errors import BadRow, ServingError
from akdl.serving.stalled_batches import UNWATCHED, WatchedCall
from akdl.storage.archive import unpack_archive
from akdl.storage.files import file_states, is_remote, local_path
from akdl.storage.model_archive import ModelError, find_saved_model
from akdl.wire.cells import Array
from akdl.wire.columns import Values

CACHE_BYTES = 1 << 30
_NAME = re.compile(r"\w[\w .=@+-]{0,199}")  # of a file, and nothing else: neither a path nor a part of an address
_AGAIN_S = 60.0  # until a model that is missing or broken is looked for again
_MOST_ERRORS = 10_000  # of names without a usable model
_OWN_BYTES = 1 << 20  # of a small SavedModel of Keras beyond its files; a plain tf.Module has 0.4 MB
_LEFT = 0.9  # of the cache after models have left, as freeing memory takes 0.1 s


class KeyedModels:
    """The models in a folder, at an address, or in an archive of a folder: "de" is the subfolder `de` or the file `de.zip`.

    A model counts with the growth of the process while it was loaded, and at least with its files and 1 MiB. `model_column`
    gets the path of the model in the place. Thread-safe.
    """

    def __init__(
        self,
        place: str,
        column: str,
        load: Callable[[str], ServedModel],
        outputs: Sequence[str],
        cache_bytes: int = CACHE_BYTES,
        default: str = "",
        model_column: str = "",
    ) -> None:
        self._place = place.rstrip("/") if is_remote(place) else local_path(place)
        self._column, self._load, self._outputs = column, load, outputs
        self._cache_bytes, self._default, self._model_column = cache_bytes, default, model_column
        self._unpacked: Optional[OwnedFolder] = None
        if os.path.isfile(self._place):
            self._unpacked = OwnedFolder("akdl-models-")
            self._unpacked.remove_at_exit()
            place, self._place = self._place, os.path.join(self._unpacked.path, "models")
            os.mkdir(self._place)
            with open(place, "rb") as file:
                unpack_archive(file, self._place)
        self._lock, self._loading = threading.Lock(), threading.Lock()  # of the models that are there, and of one that comes
        self._models: Dict[str, _Keyed] = {}  # the latest one last
        self._errors: Dict[str, _Keyed] = {}
        if default:
            with self._in_use(default):
                pass

    def predict_collecting(
        self, columns: Mapping[str, Values], rows: int, call: WatchedCall = UNWATCHED
    ) -> Tuple[Dict[str, Values], List[BadRow], int]:
        """Predict each row with its model; like `LiveModel.predict_collecting`."""
        others = {name: cells for name, cells in columns.items() if name != self._column}
        parts: List[Tuple[Array, Dict[str, Values]]] = []
        errors: Dict[int, str] = {}
        for key, places in _groups(columns[self._column]):
            own = {name: taken(cells, places) for name, cells in others.items()} if len(places) < rows else others
            try:
                with self._in_use(key) as used:
                    assert used.model is not None
                    results, bad = used.model.predict_collecting(own, len(places), call.within(places))
            except ModelError as error:
                errors.update(dict.fromkeys(places.tolist(), f"column {self._column!r}: {error}"))
                continue
            if self._model_column:
                results[self._model_column] = [used.version] * len(places)
            parts.append((places, results))
            errors.update((int(places[row]), message) for row, message in bad)
        whole = {name: gathered([(places, results[name]) for places, results in parts], rows) for name in self._outputs}
        return whole, sorted(errors.items()), 1

    def close(self) -> None:
        """Release all models. Safe to call twice."""
        while self._models:
            self._models.popitem()[1].close()
        self.remove_files()

    def remove_files(self) -> None:
        """Remove the files of unpacked models."""
        for each in self._models.values():
            if each.folder is not None:
                each.folder.remove()
        if self._unpacked is not None:
            self._unpacked.remove()

    @contextlib.contextmanager
    def _in_use(self, key: object) -> "Iterator[_Keyed]":
        name = key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)
        if key is None or not _NAME.fullmatch(name):
            got = "null" if key is None else repr(name[:50])
            raise ModelError(f"expected the name of a model, of letters, digits and ._-=+@ after the first, got {got}")
        used = self._taken(name)
        if isinstance(used.error, _Missing) and self._default:
            self._give_back(used)
            used = self._taken(self._default)
        try:
            if used.error is not None:
                raise ModelError(str(used.error))  # not itself: its traceback would hold the rows of all who got it
            yield used
        finally:
            self._give_back(used)

    def _taken(self, name: str) -> "_Keyed":
        """The model of a name, or the error of its loading, which stays until it is given back."""
        used = self._found(name)
        if used is None:
            with self._loading:  # one at a time, as a model counts with the growth of the process
                used = self._found(name) or self._loaded(name)
        return used

    def _give_back(self, used: "_Keyed") -> None:
        with self._lock:
            used.calls -= 1

    def _found(self, name: str) -> "Optional[_Keyed]":
        with self._lock:
            used = self._models.pop(name, None)
            if used is None:
                known = self._errors.get(name)
                return known if known is not None and time.monotonic() < known.loaded_s + _AGAIN_S else None
            self._models[name] = used
            used.calls += 1
            return used

    def _loaded(self, name: str) -> "_Keyed":
        before, used = _resident_bytes(), _Keyed(time.monotonic(), calls=1)
        try:
            used.folder = self._model_folder(name)
            path = find_saved_model(used.folder.path)
            used.version = os.path.relpath(path, self._place) if path.startswith(os.path.join(self._place, "")) else name
            used.model = self._load(path)
            used.bytes = max(sum(size for size, _ in file_states(path).values()) + _OWN_BYTES, _resident_bytes() - before)
        except (ModelError, ServingError) as error:
            used.close()
            used.error = error if isinstance(error, ModelError) else ModelError(f"the model {name!r}: {error}")
        with self._lock:
            if used.error is not None:
                self._errors[name] = used
                if len(self._errors) > _MOST_ERRORS:
                    del self._errors[next(iter(self._errors))]
                return used
            self._errors.pop(name, None)
            self._models[name] = used
            self._let_go()
        return used

    def _model_folder(self, name: str) -> ModelFolder:
        path, reason = f"{self._place}/{name}", ""
        for ending in (".zip", "") if is_remote(path) else ("", *ARCHIVES):
            if is_remote(path) or os.path.exists(path + ending):
                try:
                    return ModelFolder(path + ending)
                except ModelError as error:
                    if not is_remote(path):
                        raise
                    reason = f": {error}"
        raise _Missing(f"there is no model {name!r} in {shown(self._place)}{reason}")

    def _let_go(self) -> None:
        total, gone = sum(each.bytes for each in self._models.values()), False
        most = self._cache_bytes if total <= self._cache_bytes else self._cache_bytes * _LEFT
        for name, each in list(self._models.items())[:-1]:
            if not each.calls and total > most:
                self._models.pop(name).close()
                total, gone = total - each.bytes, True
        if gone:
            gc.collect()  # a loaded model is a reference cycle


class _Missing(ModelError):
    pass


@dataclass
class _Keyed:
    loaded_s: float
    folder: Optional[ModelFolder] = None
    model: Optional[ServedModel] = None
    version: str = ""
    bytes: int = 0
    calls: int = 0
    error: Optional[ModelError] = None

    def close(self) -> None:
        if self.model is not None:
            self.model.close()
        if self.folder is not None:
            self.folder.remove()


def _groups(keys: Values) -> "Iterator[Tuple[object, Array]]":
    """Yield each key and the places of its rows."""
    listed = keys.tolist() if isinstance(keys, np.ndarray) else keys
    codes = {key: code for code, key in enumerate(dict.fromkeys(listed))}
    found = np.fromiter(map(codes.__getitem__, listed), np.intp, len(listed))
    order, ends = np.argsort(found, kind="stable"), np.cumsum(np.bincount(found)).tolist()
    for key, start, end in zip(codes, [0, *ends], ends):
        yield key, order[start:end]


def taken(cells: Values, places: Array) -> Values:
    """Cells of some rows."""
    return cells[places] if isinstance(cells, np.ndarray) else list(map(cells.__getitem__, places.tolist()))


def _resident_bytes() -> int:
    """Memory of this process; 0 where the system does not show it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
