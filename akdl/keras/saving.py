"""Models to and from folders, with Keras 2 and Keras 3, and a test of all places that a task will
write.

Every export is a SavedModel, since predictors load nothing else from a training. Keras 2 writes one
by `save`, Keras 3 by `export`; what each of them cannot load becomes a `SavedFunction`.

A training may run for days until it writes its model. A missing permission, a full folder or a file
in the place of a folder is found in the first second instead.
"""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from typing import Any, Iterator, Mapping, Sequence

import tensorflow as tf

from akdl.keras.callbacks import CheckpointSettings, TensorBoard
from akdl.runner.script_state import export_model
from akdl.storage.model_forms import ModelError, find_saved_model
from akdl.storage.training_folders import without_pattern
from akdl.tf_version import is_keras_3
from akdl.training.checkpoints import latest, try_folder
from akdl.training.model_call import SavedFunction
from akdl.training.user_functions import CallbackError, UserModule
from akdl.training.workers import Group
from akdl.user_code.config_file import Config, ConfigError


def model_to_save(user: UserModule, trained: Any) -> Any:
    """Return the trained model, or the model that the user's function makes of it."""
    choose = user.function("awf_model_to_save_fn")
    if choose is None:
        return trained
    model = choose(trained)
    if not isinstance(model, tf.keras.Model):
        raise CallbackError(
            f"awf_model_to_save_fn in {user.file}: expected a tf.keras.Model, got"
            f" {type(model).__name__}"
        )
    return model


def try_export(model: Any, features: Any, trained: Any) -> None:
    """Fail for a model that Keras 3 cannot export; all workers have to call this.

    A subclassed model is exported by tracing its call, which may fail in the user's code. This is
    tried before the training, because afterwards the hours would be lost.
    """
    # Other models are exported without a call of the user's code, so their export need not be
    # tried.
    if is_keras_3() and not _knows_its_inputs(model):
        with tempfile.TemporaryDirectory(prefix="akdl-try-") as folder:
            _write(model, os.path.join(folder, "model"), features if model is trained else None)


def save_model(model: Any, path: str, group: Group, features: Any = None) -> str | None:
    """Write a SavedModel, whole or not at all, and return its path, on the chief.

    All workers have to call this.
    """
    parent = os.path.dirname(os.path.abspath(path))
    if group.is_chief:
        os.makedirs(parent, exist_ok=True)
    # Saving reads variables that are sums over workers, so all workers have to take part. The
    # others write into a folder of their own, and drop it. The chief's folder is next to `path`,
    # because a rename works within one file system only.
    with tempfile.TemporaryDirectory(
        prefix=".akdl-model-", dir=parent if group.is_chief else None
    ) as folder:
        unfinished = os.path.join(folder, "model")
        _write(model, unfinished, features)
        if not group.is_chief:
            return None
        if os.path.isdir(path):
            # Only an empty folder is removed, so a model that came in between is never lost.
            os.rmdir(path)
        os.rename(unfinished, path)
    return path


def export_file(path: str) -> str:
    """Export a Keras file that a script left in place of a SavedModel, and return the folder.

    Raises:
        ModelError: Keras cannot load or export the file; the message says what the script can write
            instead.
    """
    folder = f"{path}.export"
    try:
        _write(_load_file(path), folder)
    # Keras raises many types of errors here.
    except Exception as error:
        raise ModelError(
            f"task_config.saved_model_dir: expected a SavedModel, got {os.path.basename(path)},"
            f" which cannot be exported: {type(error).__name__}: {error}. Export the trained model:"
            " model.export(task_config.saved_model_dir)"
        ) from error
    return folder


def require_models(user: UserModule, named: Sequence[Mapping[str, str]]) -> None:
    """Refuse paths without a model, unless the user's `awf_load_model_fn` loads them."""
    for one in named:
        if not user.has("awf_load_model_fn") and not os.path.isfile(one["path"]):
            # This raises for a folder without a model, before any model is loaded.
            find_saved_model(one["path"])


def load_model(user: UserModule, path: str, name: str) -> Any:
    """Load the model of a path by the user's function, or by Keras, or as a `SavedFunction`.

    Raises:
        ModelError: There is no model, or the user's function fails.
    """
    # Keras 3 does not load SavedModels, and Keras 2 does not load exports of Keras 3. Either
    # becomes a function of the features.
    own = user.function("awf_load_model_fn")
    if own is None:
        return _load_file(path) if os.path.isfile(path) else _load_saved_model(path, name)
    try:
        with _load_model_takes_folders(name):
            model = own(path, name)
    except Exception as error:
        formats = ""
        if is_keras_3() and os.path.isdir(path):
            formats = (
                f"; {path} is a SavedModel, and load_model of Keras 3 takes .keras and .h5 files:"
                " call it as tf.keras.models.load_model, which takes SavedModels here, or use"
                " tf.keras.layers.TFSMLayer"
            )
        raise ModelError(
            f"awf_load_model_fn in {user.file} failed for {name}: {type(error).__name__}:"
            f" {error}{formats}"
        ) from error
    if not callable(model):
        raise ModelError(
            f"awf_load_model_fn in {user.file}: expected a model for {name}, got {model!r}"
        )
    return model


def _load_file(path: str) -> Any:
    """Load a .keras or .h5 file without its loss and optimizer, which no caller needs."""
    return tf.keras.models.load_model(path, compile=False)


def _load_saved_model(path: str, name: str) -> Any:
    found = find_saved_model(path)
    # Keras 2 writes this file next to the graph.
    if is_keras_3() or not os.path.exists(os.path.join(found, "keras_metadata.pb")):
        return SavedFunction(found, name)
    with without_pattern(found) as path:
        return tf.keras.models.load_model(path, compile=False)


@contextmanager
def _load_model_takes_folders(name: str) -> Iterator[None]:
    """Make `tf.keras.models.load_model` of Keras 3 take SavedModels.

    So an `awf_load_model_fn` that was written for Keras 2 works.
    """
    if not is_keras_3():
        yield
        return
    original = tf.keras.models.load_model

    def load(filepath: Any, *args: Any, **kwargs: Any) -> Any:
        if os.path.isdir(filepath):
            return _load_saved_model(os.fspath(filepath), name)
        return original(filepath, *args, **kwargs)

    # The user's module may have imported Keras without TensorFlow's name for it.
    own = [sys.modules[place] for place in ("keras.models", "keras.saving") if place in sys.modules]
    places = [tf.keras.models, *own]
    try:
        for place in places:
            place.load_model = load
        yield
    finally:
        for place in places:
            # The function is replaced for this one call, as other code may rely on Keras' own.
            place.load_model = original


def _knows_its_inputs(model: Any) -> bool:
    """Test for a functional or built model, whose export has names and dtypes of its inputs."""
    return bool(getattr(model, "inputs", None))


def _write(model: Any, path: str, features: Any = None) -> None:
    """Export a model.

    Keras 3 loses dtypes and names of the inputs of a subclassed model, so they come from
    `features`.
    """
    if features is None or not is_keras_3() or _knows_its_inputs(model):
        export_model(model, path)
        return
    archive = tf.keras.export.ExportArchive()
    # Keras exports the lookup tables of a model only if it is tracked.
    archive.track(model)
    archive.add_endpoint(
        "serve", lambda inputs: model(inputs, training=False), input_signature=[_specs(features)]
    )
    archive.write_out(path, verbose=False)


def _specs(features: Any) -> Any:
    """Return specs for any number of rows, with the names that Keras 2 gives.

    A name is the key in a dict, or otherwise input_1, input_2 and so on.
    """
    single = len(tf.nest.flatten(features)) == 1

    def spec(path: Any, one: Any) -> Any:
        last = path[-1] if path else 0
        name = last if isinstance(last, str) else f"input_{1 if single else last + 1}"
        return tf.TensorSpec([None, *one.shape[1:]], one.dtype, name=name)

    return _map_with_path(spec, features, ())


def _map_with_path(function: Any, structure: Any, path: Any) -> Any:
    # `tf.nest` has no public function that passes the paths of values.
    if isinstance(structure, dict):
        return {key: _map_with_path(function, one, (*path, key)) for key, one in structure.items()}
    if isinstance(structure, (list, tuple)):
        made = [
            _map_with_path(function, one, (*path, number)) for number, one in enumerate(structure)
        ]
        # A named tuple takes its fields as arguments of their own.
        return type(structure)(*made) if hasattr(structure, "_fields") else type(structure)(made)
    return function(path, structure)


def require_targets(task: str, group: Group, mistakes: Sequence[str]) -> None:
    """Fail on all workers for the mistakes that the chief has found; all of them have to call this.

    Only the chief writes, so only its host is tested. The sum keeps the others from waiting for a
    chief that has failed.
    """
    # Only the chief has tested its paths, so it alone has reasons to name.
    own = list(mistakes) if group.is_chief else []
    if group.sum(len(own)):
        raise ConfigError(
            task, own or ["the chief cannot write to a path of the config; see its log"]
        )


def wrong_train_targets(
    config: Config, settings: CheckpointSettings | None, callbacks: Sequence[object]
) -> list[str]:
    """List the paths of a train config that cannot be written, each with its reason."""
    reasons = {}
    if "save_path" in config:
        path = config["save_path"]
        # The model is renamed to this path at the end, which takes a new name or an empty folder.
        taken = os.path.exists(path) and (not os.path.isdir(path) or bool(os.listdir(path)))
        reasons[f"save_path: the model cannot be saved to {path}"] = (
            "it exists and is not an empty folder"
            if taken
            else try_folder(os.path.dirname(os.path.abspath(path)))
        )
    if settings is not None:
        reasons[f"callbacks: checkpoints cannot be written to {settings.path}"] = reason = (
            try_folder(settings.path)
        )
        last = None if reason else latest(settings.path)
        if last is not None and not settings.resume:
            reasons["callbacks: checkpoint has resume false"] = (
                f"{settings.path} holds checkpoints of another training, up to"
                f" {os.path.basename(last)}; remove them, choose another path, or remove resume to"
                " continue from them"
            )
    for callback in callbacks:
        # Callbacks of Keras may write anywhere, but only our own say where.
        if isinstance(callback, TensorBoard):
            reasons[f"callbacks: logs cannot be written to {callback.log_dir}"] = try_folder(
                callback.log_dir
            )
    return [f"{what}: {reason}" for what, reason in reasons.items() if reason]


def wrong_file(key: str, path: str) -> list[str]:
    """Return a mistake if a file cannot be written; an existing file is replaced."""
    reason = (
        "it is a folder"
        if os.path.isdir(path)
        else try_folder(os.path.dirname(os.path.abspath(path)))
    )
    return [f"{key}: {path} cannot be written: {reason}"] if reason else []
