"""rows.py of the Keras runner with a callback that takes its time. Needs that script as a user file."""

from __future__ import annotations

import time
from typing import Any

import tensorflow as tf
from rows import awf_create_model_fn, awf_create_train_dataset_fn

__all__ = ["Slowly", "awf_create_model_fn", "awf_create_train_dataset_fn"]


class Slowly(tf.keras.callbacks.Callback):
    """Waits after each epoch, so that a training without end leaves the processor to others."""

    def __init__(self, epoch_s: float) -> None:
        super().__init__()
        self._epoch_s = epoch_s

    def on_epoch_end(self, epoch: Any, logs: Any = None) -> None:
        time.sleep(self._epoch_s)
