"""Whole models from the rows of a stream of consecutive models; without Flink.

Row 0 of a model has the name of a zip file, rows from 1 its pieces as base64 text, all of one size
but the last. Streams from Alink name the model and its number of rows in each row; in others, a
model is whole when its pieces are a zip file.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import os
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field

from akdl.near_names import short
from akdl.storage.model_archive import CHUNK_BYTES
from bridge.exceptions import TaskError

_MOST_ROWS = 1 << 20
_SHOWN = 5


@dataclass(frozen=True)
class ModelRow:
    """A row of a stream of models; `model` is the name of its model, larger for later ones, `count`
    its number of rows.
    """

    number: int | None
    text: str | None
    model: str | None = None
    count: int | None = None
    place: int = 0


class DamagedModel(TaskError):
    """A model that cannot be used; the message says why. It costs this model, and not the job."""


@dataclass
class Model:
    """A model with some or all of its rows: a file with the pieces at their places, and the numbers
    of all rows.
    """

    name: str
    path: str
    numbers: set[int] = field(default_factory=set)
    is_given_up: bool = False
    places: list[int] = field(default_factory=list)

    def pieces(self) -> Iterator[bytes]:
        with open(self.path, "rb") as file:
            yield from iter(functools.partial(file.read, CHUNK_BYTES), b"")

    def add(self, row: ModelRow) -> None:
        """Store a row of the model; after a row that does not fit, DamagedModel is raised and
        further rows are dropped.
        """
        # The number is noted even if the row is bad: for rows without the name of their model, a
        # number that comes again shows the beginning of the next model.
        if row.number is not None:
            self.numbers.add(row.number)
        if self.is_given_up:
            return
        try:
            number, piece = self._checked(row)
        except DamagedModel:
            self.is_given_up = True
            self.places.clear()
            raise
        if number > 0:
            with open(self.path, "r+b") as file:
                file.seek((number - 1) * CHUNK_BYTES)
                file.write(piece)
        self.places.append(row.place)

    def is_whole(self, count: int | None) -> bool:
        """Return True if all rows are there: `count` of them, or as many as make a zip file."""
        if self.is_given_up:
            return False
        return self._is_zip_file() if count is None else len(self.numbers) == count

    def remove(self) -> None:
        # The folder may be gone already, with the process of the model.
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.path)

    def _checked(self, row: ModelRow) -> tuple[int, bytes]:
        number = row.number
        text = row.text
        rows = _MOST_ROWS if row.count is None else row.count
        if number is None or text is None or not 0 <= number < rows:
            raise DamagedModel(
                f"{self.name} is not a model: it has a row with model_id {number} and {short(text)}"
            )
        if number > 0:
            return number, self._decoded(number, text)
        if not text.endswith(".zip"):
            raise DamagedModel(
                f"{self.name} is not a model: expected the name of a zip file at model_id 0, got"
                f" {short(text)}"
            )
        return number, b""

    def _decoded(self, number: int, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise DamagedModel(
                f"{self.name} is damaged: model_id {number} has {short(text)} ({error})"
            ) from None

    def _is_zip_file(self) -> bool:
        """Test for a whole zip file, behind whose directory nothing may be missing.

        A piece may end with a zip file that lies inside the model. Such a file does not begin at
        the first byte.
        """
        # Rows have the numbers from 0 on, so if the largest one is not below their count, one is
        # missing.
        if max(self.numbers) >= len(self.numbers) or not zipfile.is_zipfile(self.path):
            return False
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(self.path) as file:
            return any(entry.header_offset == 0 for entry in file.infolist())
        return False


class ModelRows:
    """Assembles models from rows, on disk, so that a large one needs little memory."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._begun = 0  # number of models
        # Rows that do not name their model belong to this one.
        self._current: Model | None = None
        # These are the unfinished models whose rows have their name.
        self._named: dict[str, Model] = {}
        # This is the name of the latest whole model. Rows of earlier ones are dropped.
        self._latest = ""

    def add(self, row: ModelRow) -> Model | None:
        """Add a row, and return the model that it completes; the caller removes it. DamagedModel
        drops the model of the row.
        """
        return self._add_to_named(row.model, row) if row.model else self._add_to_current(row)

    @property
    def places(self) -> set[int]:
        """Places of the rows of unfinished models, which a checkpoint still has to have."""
        models = [self._current, *self._named.values()]
        return {place for model in models if model is not None for place in model.places}

    def _add_to_named(self, name: str, row: ModelRow) -> Model | None:
        # A later model is complete already, or the row has arrived twice.
        if name <= self._latest:
            return None
        if name not in self._named:
            self._named[name] = self._begin(name)
        model = self._named[name]
        # The row has arrived twice, as rows of a stream may after a restart of its source.
        if row.number in model.numbers:
            return None
        model.add(row)
        if not model.is_whole(row.count):
            return None
        del self._named[name]
        self._latest = name
        # Rows of earlier models may still be missing, but these models would not be used any more.
        for earlier in [other for other in self._named if other < name]:
            self._named.pop(earlier).remove()
        return model

    def _add_to_current(self, row: ModelRow) -> Model | None:
        model = self._current
        loss = None
        # A number that the current model has already belongs to the next model, which is then the
        # current one. The loss of the earlier one is raised once the row is stored.
        if model is not None and row.number in model.numbers:
            loss = None if model.is_given_up else _loss(model)
            model.remove()
            model = None
        if model is None:
            model = self._current = self._begin(None)
        model.add(row)
        if loss is not None:
            raise loss
        if not model.is_whole(row.count):
            return None
        self._current = None
        return model

    def _begin(self, name: str | None) -> Model:
        self._begun += 1
        descriptor, path = tempfile.mkstemp(dir=self._folder)
        os.close(descriptor)
        return Model(name or f"number {self._begun} of the stream", path)


def _loss(model: Model) -> DamagedModel:
    missing = [str(number) for number in range(max(model.numbers)) if number not in model.numbers][
        :_SHOWN
    ]
    what = f"model_id {', '.join(missing)} at least" if missing else "its end"
    return DamagedModel(f"{model.name} is incomplete when the next one begins: {what} is missing")
