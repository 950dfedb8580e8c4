"""Models under their names in the addresses of a server.

Where a folder has numbered versions of a model, as TensorFlow Serving reads them, the highest one
is served. A higher one that appears later takes over as newer models do in a job:
`ModelFolderWatch` finds it, and `ModelStore` loads and tries it next to the old one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from akdl.serving.kinds.functions import described
from akdl.serving.loaded_model import LoadedModel, Signature
from akdl.serving.model import ServedModel
from akdl.serving.model_store import ModelStore
from akdl.serving.model_stream import ModelFolderWatch, PublishedModel
from akdl.serving.saved_model import SavedModel, read_signatures
from akdl.storage.files import is_remote, local_path, name_of
from akdl.storage.model_forms import ARCHIVES, MODEL_FILES, kind_at
from akdl.tf_version import import_tensorflow
from akdl.wire import Serving, TableColumn
from akdl.wire.columns import Values
from operators.local_predictor import LocalPredictor, MappedRows
from operators.serve.rest_messages import Target, has_rows

Predict = Callable[[Mapping[str, Values], int], MappedRows]

# Seconds between looks into a folder of versions, as in TensorFlow Serving.
_LOOK_S = 1.0
_ENDINGS = (*MODEL_FILES, *ARCHIVES, ".akdl")


@dataclass
class NamedModel(Target):
    """A model, and its predictions.

    Attributes:
        predict: Predicts columns with this number of rows.
        predict_values: Predicts one row, whose cells are all values of a request. It is called if
            `predict` raises a ServingError because an output has no value for each row.
    """

    predict: Predict
    predict_values: Predict | None
    close: Callable[[], None]


def saved_pipeline(name: str, path: str, columns: str, key: str, trusted: bool) -> NamedModel:
    """Load a saved pipeline for rows with these columns."""
    predictor = LocalPredictor(path, columns, trusted)
    inputs, outputs = (
        {each.name: each.type for each in table}
        for table in (predictor._inputs, predictor._columns)
    )
    found = Signature(key, described(inputs), described(outputs))
    return NamedModel(
        name, "1", found, {key: found}, True, predictor._map_columns, None, predictor.close
    )


class StoredModel(NamedModel):
    """A model at a place, or the highest of the numbered versions in a folder, which newer versions
    replace.

    All versions have the inputs and outputs of the first one, because clients have been written for
    them. A newer version that does not fit them is refused.
    """

    def __init__(self, name: str, path: str, key: str, trusted: bool) -> None:
        # A model outside of numbered folders is version 1.
        newest = next(iter(_versions(path)), PublishedModel(1, "", path))
        # TensorFlow is imported alone, before the model, because its objects are left out of
        # garbage collection then. The objects of the model are not, since it leaves when a newer
        # one takes over.
        if os.path.isdir(newest.path) and not kind_at(newest.path):
            import_tensorflow()

        def report(level: int, text: str) -> None:
            print(f"akdl serve: {name}: {text}", file=sys.stderr, flush=True)

        self._serving = Serving(model=newest.path, signature_def_key=key, trusted=trusted)
        self._store = ModelStore(self._serving, report, opened=self._opened)
        with self._store.current() as current:
            model = current.model
        rows = not self._serving.cells_hold_batches
        super().__init__(
            name,
            str(newest.time_ms),
            replace(model.signature, key=key),
            read_signatures(model.folder)[model.tags]
            if isinstance(model, SavedModel)
            else {key: model.signature},
            rows,
            lambda columns, rows: self._store.predict(columns, rows)[:2],
            self._predict_values if rows else None,
            self._store.remove_files,
        )
        if newest.name:
            ModelFolderWatch(
                path,
                0,
                self._offer,
                report,
                listed=lambda folder: [
                    each for each in _versions(folder) if each.time_ms > int(self.version)
                ],
            ).start(_LOOK_S)

    def _opened(self, model: LoadedModel) -> None:
        """Take the columns from the first version, before the store compares it with them."""
        serving = self._serving
        signature = model.signature
        if not serving.input_columns:
            serving.input_columns.extend(TableColumn(name=each.key) for each in signature.inputs)
            serving.output_columns.extend(TableColumn(name=each.key) for each in signature.outputs)
            serving.cells_hold_batches = not has_rows(signature)

    def _predict_values(self, columns: Mapping[str, Values], rows: int) -> MappedRows:
        whole = Serving(cells_hold_batches=True)
        whole.MergeFrom(self._serving)
        with self._store.current() as current:
            return ServedModel(current.model, whole).predict_collecting(columns, rows)

    def _offer(self, path: str, name: str) -> None:
        """Let a newer version take over; the store raises why it cannot."""
        new = str(int(name))
        self.others = ((new, "LOADING", ""),)
        try:
            self._store.offer(path, name)
        except BaseException:
            # Probes read this without a token, so the error itself, with its paths, is in the log
            # alone.
            self.others = ((new, "END", "refused, see the log of the server"),)
            raise
        self.version, self.others = new, ((self.version, "END", ""),)


def default_name(path: str) -> str:
    """Name of a folder, or name of a file without the ending of its format."""
    name = name_of(path.rstrip("/"))
    if not is_remote(path) and os.path.isdir(local_path(path)):
        return name
    ending = next((each for each in _ENDINGS if name.lower().endswith(each)), "")
    return name[: len(name) - len(ending)]


def _versions(folder: str) -> list[PublishedModel]:
    """List the numbered entries of a folder, highest first; their numbers stand for their times."""
    found = [
        PublishedModel(int(name), name, os.path.join(folder, name))
        for name in (os.listdir(folder) if os.path.isdir(folder) else ())
        if name.isascii() and name.isdigit()
    ]
    return sorted(found, reverse=True)
