"""The state that a script keeps in Flink's checkpoints: what may be one, and how it becomes files
and a model.
"""

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, Tuple

import numpy as np

from akdl.tf_version import is_keras_3

if TYPE_CHECKING:
    from akdl.rows.stream_rows import StreamRows
    from akdl.runner.cuts import Action

# Prefix of the files of a tf.train.Checkpoint.
_NAME = "state"
# A file next to the files that the script saves, so that state and numbers are saved and restored
# together.
_LEARNT = "akdl-learnt.json"


class Learnt(NamedTuple):
    """Rows that a script has learnt, over all its processes.

    Args:
        rows: Number of rows.
        until: Their latest event time in microseconds since 1970; 0 for rows without event time.
    """

    rows: int = 0
    until: int = 0

    def __str__(self) -> str:
        until = (
            f" until={np.datetime64(self.until, 'us').astype('datetime64[ms]')}"
            if self.until
            else ""
        )
        return f"rows={self.rows}{until}"

    def write(self, folder: str) -> None:
        """Write a file into the folder of a saved state."""
        with open(os.path.join(folder, _LEARNT), "w", encoding="utf-8") as file:
            json.dump(self, file)

    @classmethod
    def take(cls, folder: str) -> "Learnt":
        """Read and remove the file that `write` has made."""
        path = os.path.join(folder, _LEARNT)
        with open(path, encoding="utf-8") as file:
            learnt = cls(*json.load(file))
        # The script's own `restore` should find only the files that its `save` has written.
        os.unlink(path)
        return learnt


class Checkpoint:
    """The result of `task_config.checkpoint`.

    Attributes:
        is_restored: An earlier process had saved the state, which the script has now.
    """

    def __init__(self, is_restored: bool, rows: "Optional[StreamRows]") -> None:
        self.is_restored = is_restored
        self._rows = rows
        # Batches that `model.fit` has trained, and so many before the epoch that runs.
        self._batches = self._before = 0

    def callback(self) -> Any:
        """Return a callback for `model.fit`, which otherwise does not show the batches that it has
        trained.

        The dataset may be made from `tf_context.batches`, if each of its elements is one batch.
        """
        import tensorflow as tf

        kept = self

        class FollowBatches(tf.keras.callbacks.Callback):  # type: ignore[misc]
            def on_epoch_begin(self, epoch: int, logs: object = None) -> None:
                # Keras counts the batches of each epoch from 0, and an epoch of a stream, which
                # `steps_per_epoch` makes, goes on with the rows behind the last one.
                kept._before = kept._batches

            def on_train_batch_end(self, batch: int, logs: object = None) -> None:
                kept._batches = kept._before + batch + 1
                if kept._rows is not None:
                    kept._rows.reach(kept._batches)

        return FollowBatches()


def export_model(model: Any, folder: str) -> None:
    """Write a Keras model, whose inputs are defined, as a SavedModel without its optimizer."""
    if is_keras_3():
        model.export(folder, verbose=False)
    else:
        model.save(folder, save_format="tf", include_optimizer=False)


def is_model(state: object) -> bool:
    """Test for a Keras model, without an import of Keras."""
    return hasattr(state, "trainable_variables") and hasattr(state, "fit")


def actions_of(state: Any, restore: "Optional[Action]") -> "Tuple[Action, Action]":
    """Return the functions that save and restore a state.

    Raises:
        TypeError: It is neither a model, nor a tf.train.Checkpoint, nor a pair of functions.
    """
    if is_model(state):
        import tensorflow as tf

        # The optimizer is read with each save: a model may be compiled, or compiled again, later.
        def checkpoint() -> Any:
            optimizer = getattr(state, "optimizer", None)
            return tf.train.Checkpoint(
                model=state, **({} if optimizer is None else {"optimizer": optimizer})
            )

    # A tf.train.Checkpoint is recognized by its methods, without an import of TensorFlow.
    elif hasattr(state, "write") and hasattr(state, "read"):

        def checkpoint() -> Any:
            return state

    elif callable(state) and callable(restore):
        return state, restore
    else:
        raise TypeError(
            "task_config.checkpoint: expected a Keras model, a tf.train.Checkpoint, or two"
            f" functions, save(folder) and restore(folder), got {type(state).__name__} and"
            f" {type(restore).__name__}"
        )
    # Variables that are made later, such as an optimizer makes with its first step, get their
    # values then. What exists already has to be in the files.
    return (
        lambda folder: checkpoint().write(_path(folder)),
        lambda folder: checkpoint().read(_path(folder)).assert_existing_objects_matched(),
    )


def _path(folder: str) -> str:
    return os.path.join(folder, _NAME)
