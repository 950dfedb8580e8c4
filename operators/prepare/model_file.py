"""A model, from a job or from an address, as a file that travels with jobs."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterable

from akdl.storage.files import fetch, file_states, sha256_of
from akdl.storage.model_archive import find_saved_model, unpack
from akdl.storage.model_place import PlacedModel, get_model, named_model
from bridge.folders.program_folder import named_by_content, scratch_folder

_placed: dict[str, PlacedModel] = {}


def packed_rows(rows: Iterable[tuple[int, str]], model_dir: str | None = None) -> str:
    """Pack the rows of a model table, read one by one, as a file that travels with jobs; rows may refer to `model_dir`."""
    with scratch_folder() as place:
        if model_dir is not None:
            rows = list(rows)
            name = named_model(rows[0][1]) if len(rows) == 1 else None
            if name is not None:
                # Another name than that of a file that only travels: a saved pipeline may hold an equal one.
                path = named_by_content(get_model(name, model_dir, place), "placed")[0]
                _placed[path] = PlacedModel(name, model_dir)
                return path
        return _pack(unpack(rows, os.path.join(place, "unpacked")), place)


def packed_model(address: str, has_keys: bool = False) -> str:
    """Pack the SavedModel at an address, or a folder of several, as a file that travels with jobs."""
    with scratch_folder() as place:
        path = fetch(address, place)
        if os.path.isdir(path):
            return _pack(path if has_keys else find_saved_model(path), place)
        return named_by_content(path, "model")[0]


def placed_model(path: str) -> PlacedModel | None:
    """Address of a file of `packed_rows` that all hosts reach; None where it has to travel with the job."""
    return _placed.get(path)


def content_of(path: str) -> object:
    """Names and checksums of the files of a model; the path, where the model is on other hosts."""
    if os.path.isdir(path):
        return {name: sha256_of(os.path.join(path, name)) for name in sorted(file_states(path))}
    if zipfile.is_zipfile(path):  # whose own checksum changes with the times of its files
        with zipfile.ZipFile(path) as file:
            return {info.filename: info.CRC for info in file.infolist()}
    return sha256_of(path) if os.path.isfile(path) else path


def _pack(saved_model: str, place: str) -> str:
    return named_by_content(shutil.make_archive(os.path.join(place, "packed"), "zip", saved_model), "model")[0]
