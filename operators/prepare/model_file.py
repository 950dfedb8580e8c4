"""A model, from a job or from an address, as a file that travels with jobs."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable

from akdl.storage.files import fetch
from akdl.storage.model_archive import find_saved_model, unpack
from akdl.storage.model_place import PlacedModel, get_model, named_model
from bridge.folders.program_folder import named_by_content, program_folder

_placed: dict[str, PlacedModel] = {}


def packed_rows(rows: Iterable[tuple[int, str]], model_dir: str | None = None) -> str:
    """Pack the rows of a model table, read one by one, as a file that travels with jobs; rows may refer to `model_dir`."""
    place = tempfile.mkdtemp(dir=program_folder())
    try:
        if model_dir is not None:
            rows = list(rows)
            name = named_model(rows[0][1]) if len(rows) == 1 else None
            if name is not None:
                # Another name than that of a file that only travels: a saved pipeline may hold an equal one.
                path = named_by_content(get_model(name, model_dir, place), "placed")[0]
                _placed[path] = PlacedModel(name, model_dir)
                return path
        return _pack(unpack(rows, os.path.join(place, "unpacked")), place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def packed_model(address: str) -> str:
    place = tempfile.mkdtemp(dir=program_folder())
    try:
        path = fetch(address, place)
        return _pack(find_saved_model(path), place) if os.path.isdir(path) else named_by_content(path, "model")[0]
    finally:
        shutil.rmtree(place, ignore_errors=True)


def placed_model(path: str) -> PlacedModel | None:
    """Address of a file of `packed_rows` that all hosts reach; None where it has to travel with the job."""
    return _placed.get(path)


def _pack(saved_model: str, place: str) -> str:
    return named_by_content(shutil.make_archive(os.path.join(place, "packed"), "zip", saved_model), "model")[0]
