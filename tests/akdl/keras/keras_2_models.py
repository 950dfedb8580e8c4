"""SavedModels of Keras 2 with the numbers they gave there, for tests that use them with Keras 3."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl.tf_version import is_keras_3

# names the folder where the tests run with Keras 3, which cannot make them
FOLDER = "AKDL_KERAS_2_MODELS"
B, A = np.float32([[1, 2], [3, 4], [5, 7]]), np.float32([[10, 20], [30, 50], [60, 70]])
WORDS = np.array([["b"], ["?"], ["a"]])


def features(name: str) -> Any:
    import tensorflow as tf

    one, two, words = tf.constant(B), tf.constant(A), tf.constant(WORDS)
    return {
        "tuple": (one, two),
        "by_name": {"a": two, "b": one},
        "dict": {"y": two, "x": one},
        "strings": {"word": words, "number": one},
    }[name]


def folder_of_models(tmp_path: Path) -> Path:
    if FOLDER not in os.environ:
        make(tmp_path)
    return Path(os.environ.get(FOLDER, tmp_path))


def make(folder: Path) -> None:
    import tensorflow as tf

    if is_keras_3():
        pytest.skip("Keras 3 does not make models of Keras 2")
    layers = tf.keras.layers
    b, a = tf.keras.Input((2,), name="b"), tf.keras.Input((2,), name="a")
    pair = tf.keras.Model([b, a], layers.Subtract()([layers.Rescaling(3.0)(b), a]))
    word, number = (
        tf.keras.Input((1,), dtype=tf.string, name="word"),
        tf.keras.Input((2,), name="number"),
    )
    index = layers.Rescaling(100.0)(
        tf.cast(layers.StringLookup(vocabulary=["a", "b"])(word), tf.float32)
    )
    strings = tf.keras.Model({"word": word, "number": number}, layers.Add()([index, number]))

    class Subclassed(tf.keras.Model):
        def call(self, inputs: Any) -> Any:
            return inputs["x"] * 2.0 - inputs["y"]

    numbers = {}
    for name, model in (
        ("tuple", pair),
        ("by_name", pair),
        ("dict", Subclassed()),
        ("strings", strings),
    ):
        numbers[name] = np.asarray(model(features(name)))
        model.save(str(folder / name), save_format="tf", include_optimizer=False)
    np.savez(folder / "numbers.npz", **numbers)
