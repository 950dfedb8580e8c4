"""A folder of consecutive models: a script or job publishes models there, and predictors load the
newest.

Each entry is the folder or file of a model, or a zip or tar file of one. Its name is its time, as
Estimators do. A name of 10 or 13 digits is seconds or milliseconds since 1970. A name of 14 or 17
digits is a local date and time, as Alink writes it. An entry with any other name has the time of
its last change. Entries called `.name`, `_name`, `temp-name` or `name.tmp` are unfinished and
ignored. An alias in a registry of MLflow is a folder with one model, which may change to an older
version too.

Example of a script that trains indefinitely:

    tf.saved_model.save(model, export)
    publish(export, "/shared/models")
"""

import contextlib
import datetime
import glob
import logging
import os
import re
import shutil
import tempfile
import threading
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Tuple

from akdl.serving.loaded_model import ServingError
from akdl.storage.files import (
    FileError,
    FileStates,
    file_states,
    is_registered,
    name_of,
    version_of,
)
from akdl.storage.model_forms import ARCHIVES, MODEL_FILES, find_model, with_weights

_UNFINISHED = re.compile(r"[._]|temp-|.*\.(tmp|part|incomplete)$")
# A folder of SavedModels for files that TensorFlow does not read, and akdl's file in it.
_LEARNT = "assets.extra", "akdl-learnt"
# Models with a text on what they have learnt that stay in the folder. Models that are published
# without one are never removed.
KEPT = 10
# Prefix of the folders of copies under way. Names that begin with a dot are ignored by predictors.
_WORK = ".publish-"
# Seconds without a change after which such a folder counts as left by a process that was killed.
_LEFT_S = 3600.0
# Files that changed more recently may be part of an unfinished copy.
SETTLE_S = 1.0
# Seconds until a broken model is tried again with unchanged files. The cause may be temporary, such
# as a full memory, but a load costs seconds of a processor.
_AGAIN_S = 60.0


class PublishedModel(NamedTuple):
    """A model in the folder; newer models compare greater.

    Args:
        time_ms: Its time in milliseconds since 1970.
        name: Name of the entry.
        path: Path of the entry.
    """

    time_ms: int
    name: str
    path: str


def publish(saved_model_dir: str, target_folder: str, learnt: str = "") -> str:
    """Copy a model into a folder of consecutive models, as the newest one, and return its path
    there.

    It appears there complete or not at all. Several processes may publish at once.

    Args:
        saved_model_dir: Folder of a SavedModel, or with one directly below it, or the file of
            another model.
        target_folder: The folder of models, created if needed.
        learnt: What the model has learnt, for people: it follows the name of the model in a
            predictor's `modelCol`. Of the models that have such a text, the newest `KEPT` stay.

    Raises:
        ModelError: There is no model.
        OSError: It cannot be copied.
    """
    source = find_model(saved_model_dir)
    os.makedirs(target_folder, exist_ok=True)
    for left in glob.glob(os.path.join(glob.escape(target_folder), f"{_WORK}*")):
        # Another process may remove it meanwhile. The folder's own time is the start of the copy,
        # and a large model may be copied for hours.
        with contextlib.suppress(OSError):
            inside = glob.glob(os.path.join(glob.escape(left), "**"), recursive=True)
            now = time.time()
            if now - max(map(os.path.getmtime, inside), default=now) > _LEFT_S:
                shutil.rmtree(left)
    # The copy is made in the same folder, because a rename is only atomic within one file system.
    work = tempfile.mkdtemp(prefix=_WORK, dir=target_folder)
    try:
        copy = os.path.join(work, "model")
        if os.path.isdir(source):
            shutil.copytree(source, copy)
        else:
            os.mkdir(copy)
            for path in with_weights(source):
                shutil.copy(path, copy)
        if learnt:
            os.makedirs(os.path.join(copy, _LEARNT[0]), exist_ok=True)
            with open(os.path.join(copy, *_LEARNT), "w", encoding="utf-8") as file:
                file.write(learnt)
        while True:
            # The clock may stand behind the name of the last model, for example after it was set
            # back. The new model still has to be the newest.
            latest = max((model.time_ms for model in published(target_folder)), default=0)
            path = os.path.join(target_folder, str(max(int(time.time() * 1000), latest + 1)))
            try:
                os.rename(copy, path)
                break
            except OSError:
                # Another process may have published in the same millisecond; then the next name is
                # tried.
                if not os.path.exists(path):
                    raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    # A stream that publishes for weeks would fill the disk.
    for model in (
        [each for each in published(target_folder) if learnt_by(each.path)][KEPT:] if learnt else ()
    ):
        shutil.rmtree(model.path, ignore_errors=True)
    return path


def learnt_by(path: str) -> str:
    """Return the text on what a published model has learnt; "" for a model that was published
    without one.
    """
    with contextlib.suppress(OSError), open(os.path.join(path, *_LEARNT), encoding="utf-8") as file:
        return file.read(1000)
    return ""


def published(folder: str) -> List[PublishedModel]:
    """Return the entries of a folder that may be models, newest first; or the version that an
    address in a registry has now.

    Raises:
        OSError: The folder cannot be read.
        FileError: The registry cannot be read.
    """
    if is_registered(folder):
        # An alias that moves back to an older version makes it the newest one.
        path = version_of(folder)
        return [PublishedModel(int(time.time() * 1000), name_of(path), path)]
    found = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if not _UNFINISHED.match(name) and (
            name.lower().endswith((*ARCHIVES, *MODEL_FILES)) or os.path.isdir(path)
        ):
            time_ms = _time_of_name(name.split(".")[0])
            if time_ms is None:
                try:
                    time_ms = int(os.stat(path).st_mtime * 1000)
                except OSError:  # removed meanwhile
                    continue
            found.append(PublishedModel(time_ms, name, path))
    return sorted(found, reverse=True)


class ModelFolderWatch:
    """Offers the newest model of a folder to a predictor.

    Not thread-safe: one thread calls `look`, such as the one of `start`. A model that was refused
    is not offered again until its files change, or until a minute has passed if it may become
    usable.

    Args:
        folder: The folder of published models, which may not exist yet.
        start_ms: Older models are ignored; milliseconds since 1970, rounded down to whole seconds.
        offer: Takes the path and the name of a model, and returns when the model is in use. It
            raises ServingError for a model that can never be used, and any other error for a model
            that cannot be used yet.
        report: Takes a logging level and a message.
        used: Path of the model in use.
        listed: Lists the models in the folder, newest first; OSError or FileError if it cannot be
            read.
    """

    def __init__(
        self,
        folder: str,
        start_ms: int,
        offer: Callable[[str, str], None],
        report: Callable[[int, str], None],
        used: str = "",
        listed: Callable[[str], List[PublishedModel]] = published,
    ) -> None:
        self._folder, self._used = folder, used
        # Names may have whole seconds, so a model of the same second would seem to be older.
        self._start_ms = start_ms // 1000 * 1000
        self._offer = offer
        self._report = report
        self._listed = listed
        self._taken: Optional[PublishedModel] = None
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None
        self._refused: Dict[str, Tuple[FileStates, float]] = {}
        self._reported: Dict[str, str] = {}

    def start(self, interval_s: float) -> None:
        """Look now, and then at intervals in a thread of its own."""
        self.look()
        self._thread = threading.Thread(
            target=self._look_again, args=(interval_s,), name="akdl-models", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop looking, after the end of a load that is under way. Safe to call twice."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> None:
        """Offer the newest model since the last accepted one; if it cannot be used, the next
        newest.
        """
        try:
            models = self._listed(self._folder)
        except (OSError, FileError) as error:
            self._report_once(
                logging.WARNING,
                self._folder,
                f"cannot read the folder of models {self._folder}:"
                f" {getattr(error, 'strerror', error)}. The model in use stays until newer ones"
                " appear there; correct the path if the folder should exist",
            )
            return
        # Newest first: if the newest model cannot be used, an older one that is newer than the
        # model in use is taken.
        for model in models:
            if (
                model.path == self._used
                or model.time_ms < self._start_ms
                or (self._taken is not None and model <= self._taken)
            ):
                break
            if self._take(model):
                self._taken, self._used = model, model.path
                # Older models are not offered any more, so what was noted of them is dropped.
                self._refused.clear()
                self._reported.clear()
                break

    def _look_again(self, interval_s: float) -> None:
        while not self._ended.wait(interval_s):
            self.look()

    def _take(self, model: PublishedModel) -> bool:
        state = state_of(model.path)
        refused = self._refused.get(model.path)
        if refused is not None and refused[0] == state and time.monotonic() < refused[1]:
            return False
        # A copy by other tools than `publish` appears before it is complete. Its files then change
        # between two looks a second apart.
        if self._ended.wait(SETTLE_S) or state_of(model.path) != state:
            return False  # being written
        try:
            self._offer(model.path, model.name)
        except ServingError as error:
            # A model that does not fit the columns will not fit later, unless its files change.
            self._refused[model.path] = state, float("inf")
            self._report_once(
                logging.ERROR, model.path, f"the model {model.path} is refused: {error}"
            )
        except Exception as error:  # after any error, the model in use stays
            self._refused[model.path] = state, time.monotonic() + _AGAIN_S
            self._report_once(
                logging.WARNING, model.path, f"the model {model.path} cannot be used yet: {error}"
            )
        else:
            return True
        return False

    def _report_once(self, level: int, about: str, text: str) -> None:
        """Report a text about a model or folder unless it is the last one: looks are frequent."""
        if self._reported.get(about) != text:
            self._reported[about] = text
            self._report(level, text)


def _time_of_name(stem: str) -> Optional[int]:
    if re.match(r"([0-9]{10}|[0-9]{13})\Z", stem):
        return int(stem) * (1000 if len(stem) == 10 else 1)
    if re.match(r"[0-9]{14}([0-9]{3})?\Z", stem):
        try:
            seconds = datetime.datetime.strptime(stem[:14], "%Y%m%d%H%M%S").timestamp()
        except (ValueError, OverflowError, OSError):
            return None
        return int(seconds) * 1000 + int(stem[14:] or 0)
    return None


def state_of(path: str) -> FileStates:
    """Files of a model with sizes and times, which change while the model is written."""
    if os.path.isdir(path):
        return file_states(path)
    with contextlib.suppress(OSError):
        status = os.stat(path)
        return {path: (status.st_size, status.st_mtime_ns)}
    return {}
