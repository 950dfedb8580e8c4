"""Local folder for a model given as a folder, file or table."""

import os
from typing import Iterable, Optional, Tuple, Union

from akdl.folders.owned_folder import OwnedFolder
from akdl.storage.files import FileError, fetch
from akdl.storage.model_archive import ModelError, unpack, unpack_file

Model = Union[str, Iterable[Tuple[int, str]]]


class ModelFolder:
    """The folder of a model at any address, an archive of one, or the rows of a table; a temporary one for unpacked files."""

    def __init__(self, model: Model) -> None:
        self._temporary: Optional[OwnedFolder] = None
        if isinstance(model, str) and os.path.isdir(model):
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
        return path if os.path.isdir(path) else unpack_file(path, target)

    def remove(self) -> None:
        if self._temporary is not None:
            self._temporary.remove()
