"""Shuffled rows with weights, and a model with dropout and a regularizer."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf


def awf_create_model_fn(dropout: float, normalize: bool = False) -> Any:
    inputs = tf.keras.Input((4,))
    x = tf.keras.layers.BatchNormalization()(inputs) if normalize else inputs
    x = tf.keras.layers.Dense(
        6, activation="tanh", kernel_regularizer=tf.keras.regularizers.L2(0.01)
    )(x)
    x = tf.keras.layers.Dropout(dropout)(x)
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1, activation="sigmoid")(x))


def awf_create_train_dataset_fn(rows: Any) -> Any:
    random = np.random.default_rng(0)
    x = random.normal(size=(rows, 4)).astype(np.float32)
    weights = random.uniform(0.5, 2, size=(rows, 1)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(
        (x, (x[:, :1] > 0).astype(np.float32), weights)
    ).shuffle(rows)
