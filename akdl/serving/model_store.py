"""The versions of a model that a process holds: which one predicts a row, when the next one takes
over, and when one leaves.

A version comes from the settings, from the folder `modelStreamFilePath`, which the store watches,
or from a client of the process; the store treats them alike.

A store has one model, which `offer` replaces by a newer version. Next to it there may be a
candidate, which predicts a share of the rows for columns of its own. Or it has a folder of models,
one for each value of a column: a version is loaded when a row first needs it, and the least
recently used ones leave.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import re
import threading
import time
from concurrent import futures
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple, Sequence

import numpy as np

from akdl.masking import shown
from akdl.serving.kinds.functions import FunctionModel
from akdl.serving.kinds.model_file import ModelFile
from akdl.serving.loaded_model import BadRow, Errors, LoadedModel, ServingError
from akdl.serving.model import UNWATCHED, BatchWatch, Report, ServedBy, ServedModel, WatchedCall
from akdl.serving.model_stream import ModelFolderWatch, learnt_by, published, state_of
from akdl.serving.output_cells import PREFIX
from akdl.serving.saved_model import SavedModel
from akdl.storage.archive import unpack_archive
from akdl.storage.files import MissingFileError, is_remote, local_path, name_of
from akdl.storage.locked_folder import OwnedFolder
from akdl.storage.model_forms import ARCHIVES, MODEL_FILES, ModelError, file_at, find_model
from akdl.storage.model_place import ModelFolder
from akdl.wire import Serving
from akdl.wire.cells import Array
from akdl.wire.columns import Values
from akdl.wire.row_parts import gathered, groups_of, hashes, taken

logger = logging.getLogger(__name__)

CACHE_BYTES = 1 << 30

# Names of the versions in a store without keys.
_CURRENT, _CANDIDATE = "current", "candidate"
# The latest rows, which a newer model has to predict before it takes over: as many as a batch has
# by default.
_TRIAL_ROWS = 256
# A key is a part of the name of a file, and neither a path nor a part of an address.
_KEY = re.compile(r"\w[\w .=@+-]{0,199}")
# Seconds until a model that is missing or broken is looked for again. Each look costs a request to
# a storage, or a load.
_AGAIN_S = 60.0
# Remembered names without a usable model. Keys come from rows, so there may be any number of them.
_MOST_ERRORS = 10_000
# Memory of a small SavedModel of Keras beyond its files. A plain tf.Module takes 0.4 MB.
_OWN_BYTES = 1 << 20
# Part of the cache that stays when models leave. They leave together, because freeing memory takes
# 0.1 s each time.
_LEFT = 0.9


def load(place: str, serving: Serving) -> LoadedModel:
    """Return the model at a local place. A further kind of model is one more class that is chosen
    here.
    """
    if serving.function:
        return FunctionModel(place, serving)
    path = find_model(place)
    file = file_at(path)
    return ModelFile(file, serving) if file else SavedModel(path, serving)


class ModelStore:
    """The versions of a model, and predictions with them. Thread-safe.

    One version predicts all of a batch, or all rows of a key in it. A version that is replaced, or
    leaves the cache, is closed after its last batch: each call holds the version that it uses.

    There are two locks. `_lock` is held for moments, by every call. `_loading` is held for the
    seconds of a load, so predictions with versions that are in memory go on meanwhile.

    Args:
        serving: Settings of the prediction.
        report: Takes a logging level and a message for the log of the job.
        watch: Looks after batches that take too long.
        opened: Takes each model before it is compared with the settings, which may still change.
    """

    def __init__(
        self,
        serving: Serving,
        report: Report = logger.log,
        watch: BatchWatch | None = None,
        opened: Callable[[LoadedModel], None] = lambda model: None,
    ) -> None:
        self._serving, self._report, self._watch, self._opened = serving, report, watch, opened
        # The first lock guards the versions, and the second one is held while a version is loaded.
        self._lock, self._loading = threading.Lock(), threading.Lock()
        # Versions by name, in the order of their last use.
        self._versions: dict[str, _Version] = {}
        # When the loading of a key failed, and why.
        self._errors: dict[str, tuple[float, type[ModelError], str]] = {}
        self._sample: _Sample | None = None
        self._reported = ""  # on a candidate that fails
        self._unpacked: OwnedFolder | None = None
        self._newer: ModelFolderWatch | None = None
        try:
            self._open(serving)
        except BaseException:
            # The caller gets no store that it could close, and a program with a LocalPredictor goes
            # on after the error.
            self.close()
            raise

    def _open(self, serving: Serving) -> None:
        if serving.model_key_col:
            self._place = self._folder_of_models(serving.model)
            if serving.default_model:
                # The default model is loaded at once, so that a wrong name fails the start and not
                # the first row without a model.
                self._release(self._version(serving.default_model))
            return
        has_model = serving.model != serving.function_folder
        places = [serving.model]
        # A script that publishes models removes the oldest ones, so the first model of a job may be
        # gone when a failure starts the process again.
        is_gone = not (is_remote(serving.model) or os.path.exists(local_path(serving.model)))
        if is_gone and serving.model_stream_file_path:
            # Where the folder cannot be read either, the error below names the first model.
            with contextlib.suppress(OSError):
                newest = published(serving.model_stream_file_path)
                places = [each.path for each in newest] or places
        for first in places:
            name = name_of(first) if has_model else serving.function
            try:
                self._versions[_CURRENT] = self._loaded(self._folder(first), name)
                break
            except Exception:  # a user's function may raise any
                # The newest one may be unusable, which the watch below reports.
                if first == places[-1]:
                    raise
        if serving.candidate_path:
            try:
                candidate = self._folder(serving.candidate_path)
                self._versions[_CANDIDATE] = self._loaded(
                    candidate, name_of(serving.candidate_path)
                )
            except (ModelError, ServingError) as error:
                raise ServingError(f"candidatePath: {error}") from error
        if serving.model_stream_file_path:
            self._newer = ModelFolderWatch(
                serving.model_stream_file_path,
                serving.models_from_ms,
                self.offer,
                self._report,
                first,
            )
            # The first look comes before the first prediction, so that a restarted job starts with
            # its latest model.
            self._newer.start(serving.model_stream_scan_interval)

    def predict(
        self, columns: Mapping[str, Values], rows: int, call: WatchedCall = UNWATCHED
    ) -> tuple[dict[str, Values], list[BadRow], ServedBy]:
        """Predict rows; return the result columns, the bad rows with their errors, and the
        version.
        """
        key = self._serving.model_key_col
        if key:
            feeding = {name: cells for name, cells in columns.items() if name != key}
            return self._predicted(groups_of(columns[key]), feeding, rows, call)
        results, bad, served_by = self._predicted(
            [(_CURRENT, np.arange(rows))], columns, rows, call
        )
        # The latest rows are kept for the trial of a newer model, with the rows that were bad
        # already.
        if rows:
            first = {name: column[:_TRIAL_ROWS] for name, column in columns.items()}
            self._sample = _Sample(first, min(rows, _TRIAL_ROWS), {row for row, _ in bad})
        if self._serving.candidate_path:
            # By the hash of its cells, so that a row is always in the share or never.
            chosen = np.flatnonzero(
                # The upper 53 bits of a hash, which a float holds exactly, are compared with the
                # share of 2**53.
                (hashes(columns) >> np.uint64(11)) < self._serving.candidate_share * 2.0**53
            )
            # A batch that took too long may have been one of the candidate, which must not be at
            # fault for a row of the model in use.
            if call.is_retried:
                chosen = chosen[:0]
            shadow: dict[str, Values] = {}
            try:
                shadow, _, _ = self._predicted(
                    [(_CANDIDATE, chosen)] if len(chosen) else [], columns, rows, call
                )
            # The model in use has predicted the rows, which no candidate may lose.
            except Exception as error:
                text = f"candidatePath: the candidate cannot predict: {error}"
                # Once, since this may be true of each batch.
                if text != self._reported:
                    self._reported = text
                    self._report(logging.WARNING, text)
            results.update(
                (PREFIX + column.name, shadow.get(column.name, [None] * rows))
                for column in self._serving.output_columns
            )
        return results, bad, served_by

    @contextlib.contextmanager
    def current(self) -> Iterator[ServedModel]:
        """Return the current model, which is not closed within the block."""
        version = self._version(_CURRENT)
        try:
            yield version.model
        finally:
            self._release(version)

    def offer(self, address: str, name: str) -> None:
        """Replace the model by a newer one, which is loaded next to it and tried with the latest
        rows.

        That also spares its first batch the slow first call. The old one stays if the new one does
        not load or fit.
        """
        with self._loading:
            started = time.monotonic()
            new = self._loaded(self._folder(address), name)
            try:
                self._try(new.model)
            except BaseException:
                # Its memory has to be free before the next version is tried.
                self._release(new)
                raise
            # The change is one assignment under the lock, so all tasks of the host get the new
            # model with their next batch. The number grows, by which tasks recognize answers of an
            # older one.
            with self._lock:
                old = self._versions[_CURRENT]
                new.number, self._versions[_CURRENT] = old.number + 1, new
            seconds = time.monotonic() - started
            self._release(old)
            message = (
                f"the model {name} took over from the model {old.name}, after {seconds:.1f} s of"
                " loading"
            )
            self._report(logging.INFO, message)

    def close(self) -> None:
        """Release all versions. Safe to call twice."""
        if self._newer is not None:
            self._newer.stop()
        while self._versions:
            self._versions.popitem()[1].close()
        self.remove_files()

    def remove_files(self) -> None:
        """Remove the files of unpacked models."""
        for version in self._versions.values():
            version.folder.remove()
        if self._unpacked is not None:
            self._unpacked.remove()

    def _predicted(
        self,
        groups: Iterable[tuple[object, Array]],
        columns: Mapping[str, Values],
        rows: int,
        call: WatchedCall,
    ) -> tuple[dict[str, Values], list[BadRow], ServedBy]:
        """Predict groups of rows, each with the version of its name."""
        parts: list[tuple[Sequence[int], dict[str, Values]]] = []
        errors: Errors = {}
        served_by = ServedBy()
        for key, places in groups:
            # Usually all rows have one version, and then nothing is divided or put back.
            is_whole = len(places) == rows
            own = (
                columns
                if is_whole
                else {name: taken(cells, places) for name, cells in columns.items()}
            )
            try:
                version = self._version(key)
            except ModelError as error:
                errors.update(
                    dict.fromkeys(
                        places.tolist(), f"column {self._serving.model_key_col!r}: {error}"
                    )
                )
                continue
            try:
                results, bad = version.model.predict_collecting(
                    own, len(places), call if is_whole else call.within(places)
                )
            finally:
                self._release(version)
            if self._serving.model_col:
                results[self._serving.model_col] = [version.title] * len(places)
            served_by = version.served_by
            if is_whole:
                return results, bad, served_by
            parts.append((places, results))
            errors.update((int(places[row]), message) for row, message in bad)
        names = [column.name for column in self._serving.output_columns]
        names += [self._serving.model_col] if self._serving.model_col else []
        whole = {
            name: gathered([(places, results[name]) for places, results in parts], rows)
            for name in names
        }
        return whole, sorted(errors.items()), served_by

    def _version(self, key: object) -> _Version:
        """Return the version of a key, which the caller has to release.

        Raises:
            ModelError: The key is not the name of a model, or its model is missing or broken. A
                failure is remembered for a minute, so that it costs one attempt per minute and not
                one per batch.
        """
        name = key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)
        # A key comes from a row, so it is checked before it becomes a part of a path.
        if key is None or not _KEY.fullmatch(name):
            got = "null" if key is None else repr(name[:50])
            raise ModelError(
                "expected the name of a model, of letters, digits and ._-=+@ after the first, got"
                f" {got}"
            )
        try:
            return self._version_of_key(name)
        except _Missing:
            if not self._serving.default_model:
                raise
            return self._version_of_key(self._serving.default_model)

    def _version_of_key(self, name: str) -> _Version:
        version = self._found(name)
        if version is None:
            # One model is loaded at a time, because its memory is measured as the growth of the
            # process. Another call may have loaded this one while we waited, so it is looked for
            # again.
            with self._loading:
                version = self._found(name) or self._load_key(name)
        return version

    def _found(self, name: str) -> _Version | None:
        """Return a version in memory as the latest used one, None if it has to be loaded.

        A remembered error is raised as a new object, because the traceback of the old one would
        keep a batch of rows in memory.
        """
        with self._lock:
            # A dict keeps the order of insertion, so taking an entry out and putting it back makes
            # it the latest used one.
            version = self._versions.pop(name, None)
            if version is not None:
                self._versions[name] = version
                # Counted under the lock, before another call can let this version leave.
                version.holders += 1
                return version
            failed = self._errors.get(name)
        if failed is not None and time.monotonic() < failed[0] + _AGAIN_S:
            raise failed[1](failed[2])
        return None

    def _load_key(self, name: str) -> _Version:
        # A store without keys has all of its versions from the start, until it is closed.
        if not self._serving.model_key_col:
            raise ServingError("the model is closed")
        before = _resident_bytes()
        try:
            version = self._loaded(self._folder_of(name), name)
        except Exception as error:  # a user's function may raise any
            # The type decides what the row gets: only a missing model is replaced by the default
            # one, a broken model is an error.
            kind, text = ModelError, f"the model {name!r}: {error}"
            if isinstance(error, ModelError):
                kind, text = type(error), str(error)
            with self._lock:
                self._errors[name] = time.monotonic(), kind, text
                if len(self._errors) > _MOST_ERRORS:
                    # The oldest name leaves. It costs one more look if it comes again.
                    del self._errors[next(iter(self._errors))]
            raise kind(text) from None
        path = version.folder.path if self._serving.function else find_model(version.folder.path)
        if path.startswith(os.path.join(self._place, "")):
            version.name = os.path.relpath(path, self._place)
        # Memory that earlier models left to the allocator hides the growth. With the floor of files
        # and 1 MiB, a process with 1,000 models and a cache of 200 MB grew by 196 MB instead of 557
        # MB.
        files = sum(size for size, _ in state_of(path).values())
        version.bytes = max(files + _OWN_BYTES, _resident_bytes() - before)
        with self._lock:
            self._errors.pop(name, None)
            version.holders += 1
            self._versions[name] = version
            surplus = self._surplus()
        # Freeing takes long, so it is done without the lock.
        self._release(*surplus)
        return version

    def _surplus(self) -> list[_Version]:
        """Take the versions out of the store that were not used for longest, if there are too many.

        The caller holds the lock and releases them outside of it. Versions leave until a tenth of
        the bound is free, because freeing memory takes long: 0.5 s for 200 models. A version that a
        call uses stays, and so does the newest.
        """
        total, gone = sum(version.bytes for version in self._versions.values()), []
        limit = self._serving.model_cache_bytes or CACHE_BYTES
        most = limit if total <= limit else limit * _LEFT
        for name, version in list(self._versions.items())[:-1]:
            # The store itself is one holder.
            if version.holders == 1 and total > most:
                gone.append(self._versions.pop(name))
                total -= version.bytes
        return gone

    def _release(self, *versions: _Version) -> None:
        """Close the versions that neither the store nor another call holds."""
        with self._lock:
            for version in versions:
                version.holders -= 1
            unused = [version for version in versions if not version.holders]
        # Closed without the lock, which every call takes.
        for version in unused:
            version.close()
        if unused:
            # A loaded model is a reference cycle, whose gigabytes would stay until Python's next
            # collection of the oldest objects.
            gc.collect()

    def _folder(self, address: str) -> ModelFolder:
        return ModelFolder(address, bool(self._serving.function))

    def _loaded(self, folder: ModelFolder, name: str) -> _Version:
        try:
            loaded = load(folder.path, self._serving)
            self._opened(loaded)
            model = ServedModel(loaded, self._serving, self._report, self._watch)
            return _Version(f"{name} {learnt_by(folder.path)}".rstrip(), folder, model)
        except BaseException:
            folder.remove()
            raise

    def _try(self, model: ServedModel) -> None:
        """Reject a model that cannot predict rows that its predecessor could, or takes too long."""
        sample = self._sample
        if sample is None:
            return
        result: Future[tuple[dict[str, Values], list[BadRow]]] = Future()

        # A row that hung the current model would hang the new one too.
        call = WatchedCall(left_out=sorted(sample.bad))

        def predict() -> None:
            try:
                result.set_result(model.predict_collecting(sample.columns, sample.rows, call))
            except BaseException as error:
                result.set_exception(error)

        # A thread that hangs inside of a model cannot be stopped. It must not keep later models
        # back.
        threading.Thread(target=predict, name="akdl-trial", daemon=True).start()
        limit_s = self._serving.infer_timeout
        try:
            _, bad = result.result(limit_s or None)
        except futures.TimeoutError:
            raise ServingError(
                f"it does not predict {sample.rows} rows within {limit_s:g} s (inferTimeout)"
            ) from None
        for row, message in bad:
            if row not in sample.bad:
                raise ServingError(f"it cannot predict a row that the current model can: {message}")

    def _folder_of_models(self, address: str) -> str:
        """A folder or an address with a model for each key. An archive is unpacked: "de" is `de/`
        or `de.zip` in it.
        """
        place = address.rstrip("/") if is_remote(address) else local_path(address)
        if not os.path.isfile(place):
            return place
        self._unpacked = OwnedFolder("akdl-models-")
        folder = os.path.join(self._unpacked.path, "models")
        os.mkdir(folder)
        with open(place, "rb") as file:
            unpack_archive(file, folder)
        return folder

    def _folder_of(self, name: str) -> ModelFolder:
        path, reason = f"{self._place}/{name}", ""
        # Asking a storage for a file that does not exist costs a request, so few endings are tried
        # there. On a disk all forms are tried, a folder first.
        for ending in (".zip", "") if is_remote(path) else ("", *ARCHIVES, *MODEL_FILES):
            if is_remote(path) or os.path.exists(path + ending):
                try:
                    return self._folder(path + ending)
                except ModelError as error:
                    if not isinstance(error.__cause__, MissingFileError):
                        raise
                    reason = f": {error}"
        raise _Missing(f"there is no model {name!r} in {shown(self._place)}{reason}")


class _Missing(ModelError):
    pass


@dataclass(eq=False)
class _Version:
    """A loaded model. It is closed when the number of its holders, the store and the calls that use
    it, becomes 0.
    """

    name: str
    folder: ModelFolder
    model: ServedModel
    number: int = 1
    bytes: int = 0
    holders: int = 1

    @property
    def served_by(self) -> ServedBy:
        loaded = self.model.model
        return ServedBy(self.number, loaded.kind, loaded.device)

    @property
    def title(self) -> str:
        """The cell of `modelCol`."""
        loaded = self.model.model
        device = f" device={loaded.device}" if loaded.device else ""
        return f"{self.name} kind={loaded.kind}{device}"

    def close(self) -> None:
        self.model.close()
        self.folder.remove()


class _Sample(NamedTuple):
    """Some of the latest rows, with the numbers of the bad ones, for the trial of a newer model."""

    columns: dict[str, Any]
    rows: int
    bad: set[int]


def _resident_bytes() -> int:
    """Memory of this process; 0 where the system does not show it."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
