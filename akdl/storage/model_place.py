"""Places of models: a folder, an archive or a table at any address; and `modelDir`, where trainings
store them.

A model in `modelDir` is named by the only row of its table, because a table transfers about 10
MB/s. A reader looks only in its own configured folder, so a table cannot make it read another file.
Nothing is unpickled.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import re
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass, field
from typing import Any

from akdl.masking import shown
from akdl.storage.ak_records import is_ak_file, model_rows
from akdl.storage.archive import ArchiveError, damage_is_named, is_zip, unpack_archive
from akdl.storage.files import (
    FileError,
    fetch,
    is_remote,
    local_path,
    opened_with_fsspec,
    put_whole,
    sha256_of,
)
from akdl.storage.locked_folder import OwnedFolder
from akdl.storage.model_archive import unpack, unpack_file, write_zip
from akdl.storage.model_forms import (
    MLFLOW,
    MODEL_FILES,
    SAVED_MODEL_FILES,
    ModelError,
    find_model,
    find_saved_model,
    is_model_file,
    other_form,
    with_weights,
)

_KEY = "akdl_model"
_NAME = re.compile("akdl-model-([0-9a-f]{64})[.]zip")


class ModelFolder:
    """A local folder with the model at an address: the folder itself, or a temporary one for
    fetched and unpacked files.

    There may be the folder or file of a model, an archive of one, a model table in an .ak file or
    in a folder of such files, or the only model in a modelDir.

    Args:
        address: The place of the model.
        of_function: The model is for a function of the user: any folder, an archive of one, or a
            file, which the folder then holds.
    """

    def __init__(self, address: str, of_function: bool = False) -> None:
        self._temporary: OwnedFolder | None = None
        # A folder is used in place. A model may have gigabytes, which a copy would read and write
        # once more.
        if os.path.isdir(address) and (of_function or not files_of_model(address)):
            self.path = address
            return
        self._temporary = OwnedFolder("akdl-model-")
        try:
            self.path = self._fetched(address, self._temporary.path, of_function)
        except BaseException:
            self.remove()
            raise

    @staticmethod
    def _fetched(address: str, folder: str, of_function: bool) -> str:
        target, fetched = os.path.join(folder, "model"), os.path.join(folder, "fetched")
        os.mkdir(fetched)
        try:
            path = fetch(address, fetched)
        except FileError as error:
            raise ModelError(f"the model cannot be read: {error}") from error
        if of_function:
            return _of_function(path, target)
        files = files_of_model(path) if os.path.isdir(path) else [path]
        if not files or is_model_file(path):
            return path
        check_model(path)
        if not is_ak_file(files[0]):
            return unpack_file(files[0], target)
        try:
            return unpack(itertools.chain.from_iterable(map(model_rows, files)), target)
        except (ArchiveError, ModelError) as error:
            raise ModelError(f"{path}: {error}") from error

    def remove(self) -> None:
        """Remove the temporary folder, if there is one."""
        if self._temporary is not None:
            self._temporary.remove()


@dataclass(frozen=True)
class PlacedModel:
    """A model in `model_dir`, which each host fetches with `get_model`.

    It does not travel with the job, because the path through the program and the JobManager would
    carry gigabytes to each host.
    """

    name: str
    model_dir: str = field(repr=False)  # an address may hold a password


def put_model(
    folder: str, model_dir: str, checkpoint: str | None = None, as_is: bool = False
) -> str:
    """Write a model and the content of `checkpoint` to `model_dir`; return the text of the row.

    The model is the SavedModel in `folder`, or with `as_is` any content of it.
    """
    named = {_KEY: _put(folder if as_is else find_saved_model(folder), model_dir)}
    if checkpoint is not None:
        named["akdl_checkpoint"] = _put(checkpoint, model_dir, has_manifest=False)
    return json.dumps(named, sort_keys=True)


def named_model(text: object) -> str | None:
    """File name in row 0 of a model table; None where the table holds the model."""
    if not isinstance(text, str) or not text.startswith("{"):
        return None
    try:
        name = json.loads(text)[_KEY]["name"]
    except (ValueError, KeyError, TypeError):
        return None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ModelError(
            f"the model table names the file {str(name)[:100]!r}, which is not the name of a model"
            " in modelDir"
        )
    return name


def get_model(name: str, model_dir: str, folder: str) -> str:
    """Path of a model written by `put_model`, after its checksum is verified; remote files are
    fetched to `folder`.
    """
    match = _NAME.fullmatch(name)
    assert match is not None  # see `named_model`
    try:
        path = fetch(f"{model_dir.rstrip('/')}/{name}#sha256={match.group(1)}", folder)
    except FileError as error:
        raise ModelError(
            f"expected the model of the table in modelDir {shown(model_dir)}: {error}"
        ) from None
    # A link could lead out of modelDir, to any file that this user can read.
    if os.path.islink(path):
        raise ModelError(f"the model {path} is a link, which may lead out of modelDir")
    return path


def _put(folder: str, model_dir: str, has_manifest: bool = True) -> dict[str, Any]:
    """Write a folder as a zip file named by its content.

    It is not compressed, because compression hardly shrinks weights. A file of the same name has
    the same content, so writing it again changes nothing, and a restarted training leaves one file.
    """
    place, send = None, os.replace
    try:
        with contextlib.ExitStack() as stack:
            if is_remote(model_dir):
                system, root = stack.enter_context(opened_with_fsspec(model_dir))
                send = functools.partial(put_whole, system)
            else:
                root = place = local_path(model_dir)
                os.makedirs(root, exist_ok=True)
            # The file is written before its name is known, which is its checksum. A folder of its
            # own keeps trainings apart that write at the same time.
            work = stack.enter_context(
                tempfile.TemporaryDirectory(prefix=".akdl-model-", dir=place)
            )
            path = os.path.join(work, "model.zip")
            with open(path, "wb") as file:
                write_zip(folder, file, has_manifest, compress=False)
            sha256, size = sha256_of(path), os.path.getsize(path)
            name = f"akdl-model-{sha256}.zip"
            send(path, f"{root}/{name}")
            return {"name": name, "size": size, "sha256": sha256}
    except OSError as error:
        raise FileError(
            f"modelDir {shown(model_dir)}: the model cannot be written there:"
            f" {error.strerror or error}"
        ) from None


def is_archive(path: str) -> bool:
    """Return True for a zip or tar file that is not itself the file of a model."""
    is_other = is_model_file(path) or not os.path.isfile(path)
    return not is_other and (is_zip(path) or tarfile.is_tarfile(path))


def _of_function(path: str, target: str) -> str:
    """Return the folder that a function gets: a fetched one, or `target` with the content of an
    archive, or with a single file.
    """
    if os.path.isdir(path):
        return path
    os.mkdir(target)
    if is_archive(path):
        with open(path, "rb") as file:
            unpack_archive(file, target)
        return target
    for each in with_weights(path):
        os.symlink(os.path.abspath(each), os.path.join(target, os.path.basename(each)))
    return target


def check_model(path: str) -> None:
    """ModelError for a local path without a model: says what is there, and what to do. The model is
    not loaded.
    """
    if os.path.isdir(path):
        if not files_of_model(path):
            find_model(path)
        return
    form = other_form(path)
    if not os.path.isfile(path):
        raise ModelError(f"there is no {path}{form}")
    if is_model_file(path):
        find_model(path)
        return
    if is_ak_file(path):
        try:
            # The first row shows whether the table is a model, without reading gigabytes.
            next(model_rows(path), None)
        except ArchiveError as error:
            raise ModelError(f"{path}: {error}") from None
        return
    expected = (
        f"{path}: expected the folder of a SavedModel or of MLflow, a {', '.join(MODEL_FILES)}"
        " file, a zip or tar file of one, or a model table in an .ak file"
    )
    if form or not is_archive(path):
        raise ModelError(expected + form)
    # The directory of a zip file lists its entries. A tar file would have to be read as a whole, so
    # only its format is checked.
    if is_zip(path):
        try:
            with damage_is_named(), zipfile.ZipFile(path) as file:
                names = file.namelist()
        except ArchiveError as error:
            raise ModelError(f"{path}: {error}") from None
        if not any(
            name.count("/") < 2
            and (os.path.basename(name) in (MLFLOW, *SAVED_MODEL_FILES) or is_model_file(name))
            for name in names
        ):
            raise ModelError(f"{expected}, found {', '.join(names[:5]) or 'nothing'}")


def files_of_model(folder: str) -> list[str]:
    """The .ak files of a table in a folder, or the only model in a modelDir; an empty list for
    other folders.
    """
    paths = [
        os.path.join(folder, name)
        for name in sorted(os.listdir(folder))
        if not name.startswith(("_", "."))
    ]
    files = [path for path in paths if os.path.isfile(path)]
    placed = [path for path in files if _NAME.fullmatch(os.path.basename(path))]
    if len(placed) > 1:
        raise ModelError(
            f"{folder} has the models of {len(placed)} trainings: name one of its zip files"
        )
    return placed or (files if len(files) == len(paths) and all(map(is_ak_file, files)) else [])
