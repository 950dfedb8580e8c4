"""Models to and from folders, with Keras 2 and Keras 3."""

import os
import tempfile
from typing import Any, Optional

import tensorflow as tf

from akdl.keras.functions import CallbackError, UserModule
from akdl.keras.workers import Group
from akdl.storage.model_archive import find_saved_model
from akdl.tf_version import tf_version


def is_keras_3() -> bool:
    """Return whether `tf.keras` is Keras 3."""
    version = str(getattr(tf.keras, "__version__", None) or getattr(tf.keras, "version", lambda: "2")())
    return tf_version() >= (2, 16) and not version.startswith("2.")


def require_empty(path: str) -> None:
    """Refuse a folder that a model cannot be saved to.

    Raises:
        FileExistsError: It exists and is not an empty folder.
    """
    if os.path.exists(path) and (not os.path.isdir(path) or os.listdir(path)):
        raise FileExistsError(f"the model cannot be saved to {path}: it exists and is not an empty folder")


def save_model(model: Any, path: str, group: Group) -> Optional[str]:
    """Write a SavedModel and return its path; all workers have to call this, only the chief's is kept.

    The folder is there when it is whole, not before.
    """
    parent = os.path.dirname(os.path.abspath(path))
    if group.is_chief:
        require_empty(path)
        os.makedirs(parent, exist_ok=True)
    # Saving reads variables that the workers hold together, so all of them have to take part.
    with tempfile.TemporaryDirectory(prefix=".akdl-model-", dir=parent if group.is_chief else None) as folder:
        unfinished = os.path.join(folder, "model")
        if is_keras_3():
            model.export(unfinished, verbose=False)
        else:
            model.save(unfinished, save_format="tf", include_optimizer=False)
        if not group.is_chief:
            return None
        if os.path.isdir(path):
            os.rmdir(path)
        os.rename(unfinished, path)
    return path


def load_model(user: UserModule, path: str, name: str) -> Any:
    """Return a model by the user's `awf_load_model_fn`, or from a SavedModel or a file of Keras.

    What comes from a SavedModel under Keras 3 is a function of the features, not a Keras model.
    """
    own = user.function("awf_load_model_fn")
    if own is not None:
        model = own(path, name)
        if not callable(model):
            raise CallbackError(f"awf_load_model_fn in {user.file} returned {model!r} for {name}, expected a model")
        return model
    if os.path.isfile(path):
        return tf.keras.models.load_model(path, compile=False)
    found = find_saved_model(path)
    if not is_keras_3():
        return tf.keras.models.load_model(found, compile=False)
    return _Served(tf.saved_model.load(found))


class _Served:
    """A SavedModel that Keras 3 wrote or will not load: called like the model."""

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded  # must stay alive, or its variables go
        self._serve = getattr(loaded, "serve", None)
        self._signature = loaded.signatures[tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY]
        self.input_names = list(self._signature.structured_input_signature[1])

    def __call__(self, features: Any) -> Any:
        if self._serve is not None and not isinstance(features, dict):
            return self._serve(features)
        if not isinstance(features, dict):
            values = list(features) if isinstance(features, (list, tuple)) else [features]
            features = dict(zip(self.input_names, values))
        outputs = self._signature(**features)
        return next(iter(outputs.values())) if len(outputs) == 1 else outputs
