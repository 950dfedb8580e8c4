"""A model, from a job or from an address, as a file that travels with jobs.

Files are named by their content, so that equal models travel once and a changed model is never
confused with its predecessor. This is the entry of every prediction: all predict operators get
their model from here.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterable

from akdl.storage.ak_records import is_ak_file
from akdl.storage.archive import is_zip
from akdl.storage.files import (
    FileError,
    checked_place,
    fetch,
    file_states,
    is_registered,
    is_remote,
    sha256_of,
)
from akdl.storage.model_archive import unpack
from akdl.storage.model_forms import ModelError, find_model, with_weights
from akdl.storage.model_place import (
    ModelFolder,
    PlacedModel,
    check_model,
    get_model,
    is_archive,
    named_model,
)
from bridge.exceptions import refused_at
from bridge.host.program_folder import named_by_content, scratch_folder

# A packed file cannot carry where its model came from, because its name is the checksum of its
# content. The address is remembered here for jobs on clusters whose hosts reach it.
_placed: dict[str, PlacedModel] = {}


def packed_rows(rows: Iterable[tuple[int, str]], model_dir: str | None = None) -> str:
    """Pack the rows of a model table, read one by one, as a file that travels with jobs; rows may
    refer to `model_dir`.
    """
    with scratch_folder() as place:
        if model_dir is not None:
            # The table of a model in `modelDir` has one short row that names it, so the list
            # is small.
            rows = list(rows)
            name = named_model(rows[0][1]) if len(rows) == 1 else None
            if name is not None:
                # The name differs from that of a file that only travels with a job, because a saved
                # pipeline may contain an equal file without an address.
                path = named_by_content(get_model(name, model_dir, place), "placed")[0]
                _placed[path] = PlacedModel(name, model_dir)
                return path
        return _pack(unpack(rows, f"{place}/unpacked"), place)


def packed_model(where: str, address: str, is_any: bool = False) -> str:
    """Pack the model at an address as a file that travels with jobs; errors begin with `where`.

    With `is_any`, the address need not have a single model: it may have a folder with a model for
    each key, or any files that a user's function loads.
    """
    with refused_at(where, FileError, ModelError), scratch_folder() as place:
        path = fetch(address, place)
        if not is_any:
            check_model(path)
        # An archive travels as it is. Packing it again would cost time and would change its
        # checksum, which identifies the model.
        if is_archive(path) and not is_ak_file(path):
            return named_by_content(path, "model")[0]
        if is_any:
            return _pack(path, place)
        folder = ModelFolder(path)
        try:
            return _pack(find_model(folder.path), place)
        finally:
            folder.remove()


def model_for_job(where: str, address: str, is_elsewhere: bool, is_any: bool = False) -> str:
    """Path of a model for a job: a file that travels, or a path on hosts. Anything that is not a
    model is refused now.

    See `packed_model` for `where` and `is_any`.
    """
    # Hosts ask a registry, so that a stream follows an alias.
    is_any |= is_registered(address)
    with refused_at(where, FileError, ModelError):
        path = checked_place(address)
        # With many models at an address, hosts read only the ones that they need, so nothing is
        # fetched here.
        if (is_remote(address) and not is_any) or (is_elsewhere and os.path.exists(path)):
            return packed_model(where, path, is_any)
    if not (is_any and os.path.exists(path)):
        refuse_other_models(where, path, is_elsewhere)
    return path


def refuse_other_models(where: str, address: str, is_elsewhere: bool) -> None:
    """Refuse a path without a model; one that is missing here may exist `is_elsewhere`, on the
    hosts of a cluster.
    """
    with refused_at(where, FileError, ModelError):
        path = checked_place(address)
        if not is_remote(address) and (not is_elsewhere or os.path.exists(path)):
            check_model(path)


def placed_model(path: str) -> PlacedModel | None:
    """Address of a file of `packed_rows` that all hosts reach; None where it has to travel with the
    job.
    """
    return _placed.get(path)


def content_of(path: str) -> object:
    """Fingerprint of a model: the names and checksums of its files.

    It is the path if the model is on other hosts. Results of a resumed prediction are reused only
    if this value is the same, so it must not change when an equal model is packed again.
    """
    if os.path.isdir(path):
        return {name: sha256_of(f"{path}/{name}") for name in sorted(file_states(path))}
    # The checksum of a zip file changes with the times of its entries, even if their content is
    # equal.
    if is_zip(path):
        with zipfile.ZipFile(path) as file:
            return {info.filename: info.CRC for info in file.infolist()}
    return list(map(sha256_of, with_weights(path))) or path


def _pack(model: str, place: str) -> str:
    """Pack a folder or file as a zip file in the program's folder and return its path."""
    path = f"{place}/packed.zip"
    if os.path.isdir(model):
        shutil.make_archive(path[: -len(".zip")], "zip", model)
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for each in with_weights(model):
                file.write(each, os.path.basename(each))
    return named_by_content(path, "model")[0]
