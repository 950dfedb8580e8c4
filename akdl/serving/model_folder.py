"""Local folder for a model given as a folder, file or table."""

import itertools
import os
import tarfile
import zipfile
from typing import Iterable, List, Optional, Tuple, Union

from akdl.folders.owned_folder import OwnedFolder
from akdl.storage.ak_records import is_ak_file, model_rows
from akdl.storage.archive import ArchiveError, damage_is_named
from akdl.storage.files import FileError, fetch
from akdl.storage.model_archive import SAVED_MODEL_FILES, ModelError, find_saved_model, unpack, unpack_file
from akdl.storage.model_place import is_placed
from akdl.storage.other_models import other_form

Model = Union[str, Iterable[Tuple[int, str]]]


class ModelFolder:
    """The folder of a model at any address, an archive of one, or the rows of a table; a temporary one for unpacked files.

    A table may be in an .ak file or in a folder of them, or be the only model in a modelDir.
    """

    def __init__(self, model: Model) -> None:
        self._temporary: Optional[OwnedFolder] = None
        if isinstance(model, str) and os.path.isdir(model) and not _files_of_model(model):
            self.path = model
            return
        self._temporary = OwnedFolder("akdl-model-")
        self._temporary.remove_at_exit()
        try:
            self.path = self._fetched(model, self._temporary.path)
        except BaseException:
            self.remove()
            raise

    @staticmethod
    def _fetched(model: Model, folder: str) -> str:
        target = os.path.join(folder, "model")
        if not isinstance(model, str):
            return unpack(model, target)
        fetched = os.path.join(folder, "fetched")
        os.mkdir(fetched)
        try:
            path = fetch(model, fetched)
        except FileError as error:
            raise ModelError(f"the model cannot be read: {error}") from None
        files = _files_of_model(path) if os.path.isdir(path) else [path]
        if not files:
            return path
        check_model(path)
        if not is_ak_file(files[0]):
            return unpack_file(files[0], target)
        try:
            return unpack(itertools.chain.from_iterable(map(model_rows, files)), target)
        except (ArchiveError, ModelError) as error:
            raise ModelError(f"{path}: {error}") from error

    def remove(self) -> None:
        if self._temporary is not None:
            self._temporary.remove()


def check_model(path: str) -> None:
    """ModelError for a local path without a SavedModel: says what is there, and what to do. The model is not loaded."""
    if os.path.isdir(path):
        if not _files_of_model(path):
            find_saved_model(path)
        return
    form = other_form(path)
    if not os.path.isfile(path):
        raise ModelError(f"there is no {path}{form}")
    if is_ak_file(path):
        try:
            next(model_rows(path), None)
        except ArchiveError as error:
            raise ModelError(f"{path}: {error}") from None
        return
    expected = f"{path}: expected the folder of a SavedModel, a zip or tar file of one, or a model table in an .ak file"
    if form or not (zipfile.is_zipfile(path) or tarfile.is_tarfile(path)):
        raise ModelError(expected + form)
    if zipfile.is_zipfile(path):
        try:
            with damage_is_named(), zipfile.ZipFile(path) as file:
                names = file.namelist()
        except ArchiveError as error:
            raise ModelError(f"{path}: {error}") from None
        if not any(name.count("/") < 2 and os.path.basename(name) in SAVED_MODEL_FILES for name in names):
            raise ModelError(f"{expected}, found {', '.join(names[:5]) or 'nothing'}")


def _files_of_model(folder: str) -> List[str]:
    """The .ak files of a table in a folder, or the only model in a modelDir; an empty list for other folders."""
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if not name.startswith(("_", "."))]
    files = [path for path in paths if os.path.isfile(path)]
    placed = [path for path in files if is_placed(path)]
    if len(placed) > 1:
        raise ModelError(f"{folder} has the models of {len(placed)} trainings: name one of its zip files")
    return placed or (files if len(files) == len(paths) and all(map(is_ak_file, files)) else [])
