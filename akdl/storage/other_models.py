"""Models in other forms than a SavedModel: what a file or folder holds, and how it becomes one."""

import os
import zipfile

from akdl.tf_version import KERAS_FILES

_KERAS = (
    "a model in a format of Keras: save it as a SavedModel, with keras.models.load_model(file).export(folder) where it was made"
)
_WEIGHTS = (
    "the weights of a checkpoint, without the graph: load them in the program that defines the model, and save it with "
    "model.export(folder) or tf.saved_model.save"
)
_FUNCTION = "a model of another framework: load it in a function, and name that as the predictFn of PredictBatchOp"
_FORMS = (
    ((".index", ".ckpt", "checkpoint", ".data-00000-of-00001", ".weights.h5"), _WEIGHTS),  # the last one also ends in .h5
    (KERAS_FILES, _KERAS),
    ((".onnx", ".pt", ".pth", ".pkl", ".joblib", ".safetensors", ".tflite", ".ubj", ".cbm"), _FUNCTION),
)
_HDF5 = b"\x89HDF\r\n\x1a\n"


def other_form(path: str) -> str:
    """A part of a sentence that says what lies at a path, and what to do; "" where that is not known."""
    name = os.path.basename(path)
    names = sorted(os.listdir(path)) if os.path.isdir(path) else [name]
    if not os.path.exists(path) and os.path.isfile(f"{path}.index"):
        names = [f"{name}.index"]  # a checkpoint is named by the prefix of its files
    for each in names:
        for endings, text in _FORMS:
            if each.lower().endswith(endings):
                return f": {each} is {text}"
    return f": {name} is {_KERAS}" if os.path.isfile(path) and _is_keras(path) else ""


def _is_keras(path: str) -> bool:
    with open(path, "rb") as file:
        if file.read(len(_HDF5)) == _HDF5:
            return True
    try:
        with zipfile.ZipFile(path) as archive:
            return "model.weights.h5" in archive.namelist()
    except (zipfile.BadZipFile, ValueError, OSError):
        return False
