"""Forms of models in files: SavedModels, single files and folders of MLflow, which are served, and
other forms.

Users name checkpoints, weights or pickles too, so an error says which form was found and what to do
with it.
"""

from __future__ import annotations

import os
import zipfile

from akdl.storage.files import file_states, is_registered
from akdl.tf_version import KERAS_FILES

SAVED_MODEL_FILES = ("saved_model.pb", "saved_model.pbtxt")
# Endings of the files that `akdl.serving.kinds` opens.
MODEL_FILES = (".keras", ".onnx", ".pt2", ".pt")
# Name of the file that describes the model in a folder of MLflow.
MLFLOW = "MLmodel"
# Folders in there where MLflow writes the files and SavedModels that we read without it. Other
# folders belong to the user's own code, such as `artifacts`.
_OF_MLFLOW = ("", "data", "tf2model")
ARCHIVES = (".ak", ".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2")

_KERAS = (
    "a model in a format of Keras: save it as a SavedModel, with"
    " keras.models.load_model(file).export(folder) where it was made"
)
_WEIGHTS = (
    "the weights of a checkpoint, without the graph: load them in the program that defines the"
    " model, and save it with model.export(folder) or tf.saved_model.save"
)
_FUNCTION = (
    "a model of another framework: put it into a folder, the modelPath of PredictBatchOp, and let"
    " predictFn load it from there"
)
_OF_TORCH = (
    "not TorchScript: save the model with torch.export.save or torch.jit.save, as weights and"
    " pickles are not loaded"
)
_FORMS = (
    # The first line is searched first, because .weights.h5 also ends in .h5, which is a whole
    # model.
    ((".index", ".ckpt", "checkpoint", ".data-00000-of-00001", ".weights.h5"), _WEIGHTS),
    (KERAS_FILES, _KERAS),
    ((".pth", ".pkl", ".joblib", ".safetensors", ".tflite", ".ubj", ".cbm"), _FUNCTION),
)
# The first bytes of an HDF5 file, a format of Keras 2, in which a model may have any name.
_HDF5 = b"\x89HDF\r\n\x1a\n"


class ModelError(ValueError):
    """There is no usable model at the expected place; the message says what was found."""


def find_saved_model(folder: str) -> str:
    """SavedModel directory in `folder`: the folder itself, or the only one directly below it, such
    as a timestamp.

    Raises:
        ModelError: There is no SavedModel, or there are several; the message lists what was found.
    """
    if not os.path.isdir(folder):
        raise ModelError(
            f"expected a SavedModel in {folder}, which is not a folder{other_form(folder)}"
        )
    found = _saved_models_in(folder)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(map(os.path.basename, found))
        raise ModelError(f"expected one SavedModel in {folder}, found {len(found)}: {names}")
    raise ModelError(
        "expected a SavedModel ({}) in {} or one folder below, found {}{}".format(
            " or ".join(SAVED_MODEL_FILES),
            folder,
            ", ".join(sorted(os.listdir(folder))) or "nothing",
            other_form(folder) or ": export the trained model there",
        )
    )


def find_model(place: str) -> str:
    """Path of the model at a local place: a file, the only such file in a folder, or the folder of
    a SavedModel or of MLflow.

    A folder of MLflow stays whole, because weights next to an ONNX model have any name there.

    Raises:
        ModelError: There is no model, or there are several.
    """
    if os.path.isfile(os.path.join(place, MLFLOW)):
        return place
    file = file_at(place)
    if not os.path.isfile(file) or (file != place and _saved_models_in(place)):
        return find_saved_model(place)
    # torch.save and torch.jit.save both write zip files, and only TorchScript has constants.pkl.
    if file.lower().endswith(".pt") and not any(
        name.endswith("/constants.pkl") for name in _entries(file)
    ):
        raise ModelError(f"{file} is {_OF_TORCH}")
    return file


def is_model_file(name: str) -> bool:
    return name.lower().endswith(MODEL_FILES)


def with_weights(path: str) -> list[str]:
    """The file of a model, if it exists, and the file next to it with the weights of an ONNX model,
    as PyTorch and exporters of Hugging Face name it.
    """
    return list(filter(os.path.isfile, (path, f"{path}.data", f"{path}_data")))


def file_at(path: str) -> str:
    """Path of the file to load at a local path: that of a model, or `MLmodel`; "" for a SavedModel
    and anything else.
    """
    files = _files_at(path)
    if len(files) != 1:
        return ""
    return path if files == [path] else os.path.join(path, files[0])


def kind_at(path: str) -> str:
    """Kind of the model files at a local path or in a zip file, see `kind_of`, or in a registry of
    MLflow; "" for a SavedModel and anything else.
    """
    kinds = {MLFLOW} if is_registered(path) else set(map(kind_of, _files_at(path)))
    return kinds.pop() if len(kinds) == 1 else ""


def kind_of(file: str) -> str:
    """Kind of a model file: the ending of its name, or `MLmodel`."""
    return os.path.splitext(file)[1].lower() or os.path.basename(file)


def _files_at(path: str) -> list[str]:
    names = _names_at(path)
    if any(os.path.basename(name) in SAVED_MODEL_FILES for name in names):
        return []
    files = list(filter(is_model_file, names))
    # Pickles next to a file are classes of the user, with which only MLflow can load it.
    is_pickled = any(name.endswith(".cloudpickle") for name in names)
    return [MLFLOW] if MLFLOW in names and (is_pickled or len(files) != 1) else files


def _names_at(path: str) -> list[str]:
    """Names in a folder, or in a zip file and the folders at its root; the path of any
    other file.
    """
    if is_model_file(path) and not os.path.isdir(path):
        return [path]
    names = sorted(os.listdir(path)) if os.path.isdir(path) else _entries(path)
    if MLFLOW in names:
        inside = {*names, *file_states(path)}
        return [name for name in inside if os.path.dirname(name) in _OF_MLFLOW]
    return [name for name in names if name.count("/") < 2]


def _entries(path: str) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError):
        return []


def find_keras_file(folder: str) -> str | None:
    """Path of the only Keras model file in `folder`; None for several, or next to a SavedModel.
    Weights do not count.
    """
    found = [name for name in os.listdir(folder) if _form_of(name) == _KERAS]
    return None if len(found) != 1 or _saved_models_in(folder) else os.path.join(folder, found[0])


def other_form(path: str) -> str:
    """Part of a sentence that names the form of the file at a path, and the remedy; "" for an
    unknown form.
    """
    name = os.path.basename(path)
    names = sorted(os.listdir(path)) if os.path.isdir(path) else [name]
    if not os.path.exists(path) and os.path.isfile(f"{path}.index"):
        # A checkpoint is named by the prefix of its files, at which itself there is no file.
        names = [f"{name}.index"]
    for each in names:
        if _form_of(each):
            return f": {each} is {_form_of(each)}"
    return f": {name} is {_KERAS}" if os.path.isfile(path) and _is_keras(path) else ""


def _is_keras(path: str) -> bool:
    with open(path, "rb") as file:
        if file.read(len(_HDF5)) == _HDF5:
            return True
    return "model.weights.h5" in _entries(path)


def _form_of(name: str) -> str:
    """Description of a file by the ending of its name; "" if that says nothing."""
    return next((text for endings, text in _FORMS if name.lower().endswith(endings)), "")


def _saved_models_in(folder: str) -> list[str]:
    """The folder itself if it is a SavedModel, else the SavedModels directly below it."""
    for folders in ([folder], [os.path.join(folder, name) for name in sorted(os.listdir(folder))]):
        found = [
            each
            for each in folders
            if any(os.path.isfile(os.path.join(each, name)) for name in SAVED_MODEL_FILES)
        ]
        if found:
            return found
    return []
