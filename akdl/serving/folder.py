"""A model as it was given, brought into a folder."""

import os
import shutil
import tempfile
from typing import Iterable, Optional, Tuple, Union

from akdl.model_archive import unpack, unpack_file

Model = Union[str, Iterable[Tuple[int, str]]]


class ModelFolder:
    """The folder of a model; a temporary one where the model has to be unpacked.

    Args:
        model: Folder of a SavedModel, a zip or tar file of one, or the rows of a model table.

    Attributes:
        path: The folder.

    Raises:
        ModelError: The file or the rows are no model.
    """

    def __init__(self, model: Model) -> None:
        self._temporary: Optional[str] = None
        if isinstance(model, str) and not os.path.isfile(model):
            self.path = model
            return
        self._temporary = tempfile.mkdtemp(prefix="akdl-model-")
        target = os.path.join(self._temporary, "model")
        try:
            self.path = unpack_file(model, target) if isinstance(model, str) else unpack(model, target)
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Delete what was unpacked. Safe to call twice."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
