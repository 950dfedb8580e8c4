"""A small CommonEstimator, and rows for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

X = np.random.default_rng(0).normal(3.0, 2.0, size=[200, 2]).astype(np.float32)
CLASSES = (X[:, 0] > X[:, 1]).astype(np.int64)
NUMBERS = X[:, 0] - 2 * X[:, 1] + 1


def input_fn(labels: Any, epochs: int | None = None) -> Any:
    import tensorflow as tf

    return lambda: tf.data.Dataset.from_tensor_slices(({"x": X}, labels)).repeat(epochs).batch(50)


def make_model() -> Any:
    import tensorflow as tf

    inputs = {"x": tf.keras.Input([2], name="x")}
    return tf.keras.Model(inputs, tf.keras.layers.Dense(1)(inputs["x"]))


def estimator(
    folder: Path,
    head: Any = "classification",
    model: Any = make_model,
    optimizer: Any = None,
    **more: Any,
) -> Any:
    import tensorflow as tf

    from akdl.engine.run_config import generate_run_config
    from akdl.estimator.common_estimator import CommonEstimator
    from akdl.estimator.head import UserDefineHead

    return CommonEstimator(
        model=model,
        head=UserDefineHead(head) if isinstance(head, str) else head,
        optimizer=optimizer or tf.keras.optimizers.Adam(0.1),
        config=generate_run_config(
            save_checkpoints_steps=1000, log_step_count_steps=1000, model_dir=str(folder)
        ),
        **more,
    )


def serialized(x: Any) -> bytes:
    import tensorflow as tf

    example = tf.train.Example()
    example.features.feature["x"].float_list.value.extend(x)
    return example.SerializeToString()
