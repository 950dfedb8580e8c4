"""rows.py of the Keras runner with a callback that waits in the first attempt to be killed. Needs
that script as a user file.
"""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import tensorflow as tf
from rows import awf_create_model_fn, awf_create_train_dataset_fn

__all__ = ["WaitToBeKilled", "awf_create_model_fn", "awf_create_train_dataset_fn"]


class WaitToBeKilled(tf.keras.callbacks.Callback):
    """Waits before epoch 6, unless a former attempt has; the chief writes down each epoch that
    begins.

    Args:
        marker: A file that is made before it waits; the epochs go beside it.
    """

    def __init__(self, marker: Any) -> None:
        super().__init__()
        self._marker = marker

    def on_epoch_begin(self, epoch: Any, logs: Any = None) -> None:
        if json.loads(os.environ["TF_CONFIG"])["task"]["type"] != "chief":
            return
        with open(self._marker + ".epochs", "a") as file:
            file.write(f"{epoch}\n")
        if epoch == 6 and not os.path.exists(self._marker):
            open(self._marker, "w").close()
            threading.Event().wait()
