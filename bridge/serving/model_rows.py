"""Rows of consecutive models, as a stream brings them, to whole models; without Flink.

The rows of a model are those of a model table: number 0 has the name of a zip file, numbers from 1 have its pieces as base64
text. Streams as Alink writes them say of each row to which model it belongs, and how many rows that has. Without, a model is
whole when the pieces up to some number end as a zip file of their length does, and a number that is there already is the next
model's.
"""

from __future__ import annotations

import base64
import binascii
import os
import shutil
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from bridge.exceptions import TaskError

_END = struct.Struct("<4s4H2IH")  # of a zip file without a comment: mark, disks, entries, size and place of the directory
_MARK = b"PK\x05\x06"
_IN_ZIP64 = 0xFFFFFFFF
_MOST_ROWS = 1 << 20
_SHOWN = 5


@dataclass(frozen=True)
class ModelRow:
    """A row of a stream of models.

    Args:
        number: Of the row in its model.
        text: The name of a zip file, or a piece.
        model: Which model it belongs to, a later one being the larger text; None where the stream does not say.
        count: How many rows the model has; None where the stream does not say.
        place: Of the row in the stream, for `ModelRows.places`.
    """

    number: int | None
    text: str | None
    model: str | None = None
    count: int | None = None
    place: int = 0


class DamagedModel(TaskError):
    """A model that is given up; the message says why."""


@dataclass
class Model:
    """A model of which some rows are there, or all.

    Args:
        name: For the log.
        folder: Where its pieces lie.
        sizes: Bytes of each piece by its number; 0 has none.
        is_given_up: Whether it is damaged; further rows are dropped.
        places: Of its rows in the stream.
    """

    name: str
    folder: str
    sizes: dict[int, int] = field(default_factory=dict)
    is_given_up: bool = False
    places: list[int] = field(default_factory=list)

    def pieces(self) -> Iterator[bytes]:
        """Yield the pieces of its zip file."""
        for number in range(1, len(self.sizes)):
            with open(self._path(number), "rb") as file:
                yield file.read()

    def add(self, row: ModelRow) -> None:
        """Keep a row.

        Raises:
            DamagedModel: It is none of a model.
        """
        number, text = row.number, row.text
        rows = _MOST_ROWS if row.count is None else row.count
        if number is None or text is None or not 0 <= number < rows:
            raise DamagedModel(f"{self.name} is no model: it has a row with model_id {number} and {_shown(text)}")
        piece = b""
        if number == 0:
            if not text.endswith(".zip"):
                raise DamagedModel(
                    f"{self.name} is no model: model_id 0 should have the name of a zip file, got {_shown(text)}"
                )
        else:
            try:
                piece = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError) as error:
                raise DamagedModel(f"{self.name} is damaged: model_id {number} has {_shown(text)} ({error})") from None
            with open(self._path(number), "wb") as file:
                file.write(piece)
        self.sizes[number] = len(piece)
        self.places.append(row.place)

    @property
    def is_whole(self) -> bool:
        """Whether what is there is a zip file from its beginning to its end."""
        total, last = sum(self.sizes.values()), len(self.sizes) - 1
        if 0 not in self.sizes or last < 1 or max(self.sizes) != last:
            return False
        tail = b""
        for number in range(last, 0, -1):
            if len(tail) < _END.size:
                with open(self._path(number), "rb") as file:
                    tail = file.read() + tail
        if len(tail) < _END.size:
            return False
        mark, *_, size, place, comment = _END.unpack(tail[-_END.size :])
        return mark == _MARK and comment == 0 and (_IN_ZIP64 in (size, place) or size + place + _END.size == total)

    def remove(self) -> None:
        """Delete its pieces."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, number: int) -> str:
        return os.path.join(self.folder, str(number))


class ModelRows:
    """Gathers rows to models, on disk, so that a large one needs little memory.

    Args:
        folder: For the pieces.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._models: dict[str, Model] = {}  # that are not whole yet, by what their rows say
        self._begun = 0
        self._latest = ""  # of the models that rows speak of, the latest that was whole

    def add(self, row: ModelRow) -> Model | None:
        """Take a row, and return the model that is whole with it; the caller removes it.

        Raises:
            DamagedModel: A model is given up. Further rows of it are dropped.
        """
        key = row.model or ""
        if key and key <= self._latest:
            return None  # of a model that came too late, or a row that came twice
        lost = None
        model = self._models.get(key)
        if model is not None and row.number in model.sizes:
            if key:
                return None
            lost = None if model.is_given_up else self._lost(model, row.count)
            self._forget(key)
            model = None
        if model is None:
            model = self._begin(key)
        if model.is_given_up:
            model.sizes.setdefault(-1 if row.number is None else row.number, 0)
            return None
        try:
            model.add(row)
        except DamagedModel:
            model.is_given_up = True
            model.places.clear()
            model.sizes.setdefault(-1 if row.number is None else row.number, 0)
            raise
        if lost is not None:
            raise lost
        if not (model.is_whole if row.count is None else len(model.sizes) == row.count):
            return None
        del self._models[key]
        if key:
            self._latest = key
            for other in [other for other in self._models if other and other < key]:
                self._forget(other)
        return model

    @property
    def places(self) -> set[int]:
        """Places in the stream of all rows of models that are not whole yet."""
        return {place for model in self._models.values() for place in model.places}

    def _begin(self, key: str) -> Model:
        self._begun += 1
        folder = os.path.join(self._folder, str(self._begun))
        os.mkdir(folder)
        self._models[key] = Model(key or f"number {self._begun} of the stream", folder)
        return self._models[key]

    def _forget(self, key: str) -> None:
        self._models.pop(key).remove()

    @staticmethod
    def _lost(model: Model, count: int | None) -> DamagedModel:
        end = max(model.sizes) + 1
        missing = [str(number) for number in range(end) if number not in model.sizes][:_SHOWN]
        what = f"model_id {', '.join(missing)} and perhaps more" if missing else "its end"
        return DamagedModel(f"{model.name} is not whole when the next one begins: {what} is missing")


def _shown(text: str | None) -> str:
    return repr(text) if text is None or len(text) <= 40 else f"{text[:40]!r}..."
