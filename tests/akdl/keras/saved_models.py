"""Saved linear models, and the rows that they read."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.akdl.keras.support import save

ARGS = {"file": "${DATA_PATH}$/test.csv", "skip_head": False, "dim": 7}


def save_models(folder: Path, *names: str) -> list[dict[str, str]]:
    """Save linear models with other weights each: the first looks at the right features."""
    import tensorflow as tf

    saved = []
    for number, name in enumerate(names):
        inputs = tf.keras.Input((6,), name="input")
        model = tf.keras.Model(inputs, tf.keras.layers.Dense(1, activation="sigmoid")(inputs))
        kernel = np.zeros([6, 1], np.float32)
        kernel[number : number + 2] = 1
        model.set_weights([kernel, np.zeros(1)])
        saved.append({"name": name, "path": save(model, folder / name)})
    return saved
