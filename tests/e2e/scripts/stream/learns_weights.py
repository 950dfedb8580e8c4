"""A Keras model of two weights that learns the ids of a stream in batches, and writes both weights
for each row.

As a program of its own it trains with the ids of a file: `learns_weights.py IDS.npy WEIGHTS.npy`.
"""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import numpy as np
import tensorflow as tf

BATCH = 50


def new_model() -> Any:
    model = tf.keras.Sequential(
        [tf.keras.layers.Input((1,)), tf.keras.layers.Dense(1, kernel_initializer="zeros")]
    )
    model.compile(tf.keras.optimizers.Adam(0.01), "mse")
    return model


def learn(model: Any, ids: np.ndarray) -> np.ndarray:
    """Train with a batch, and return for each of its rows the new weights: two FLOATs, whose bits
    are one BIGINT.
    """
    model.train_on_batch(
        np.sin(ids, dtype=np.float32)[:, None], np.cos(ids * 0.7, dtype=np.float32)[:, None]
    )
    weights = np.concatenate([each.ravel() for each in model.get_weights()])
    return np.repeat(weights.view(np.int64), len(ids))


def main(task_config: Any) -> None:
    model = new_model()
    task_config.checkpoint(model, every_rows=300)
    for rows in task_config.tf_context.batches(BATCH):
        task_config.output_writer.write_batch(
            {"id": rows["id"], "p": learn(model, rows["id"].numpy()), "t": rows["t"]}
        )
        pathlib.Path(task_config.user_params["works"]).touch()


if __name__ == "__main__":
    ids = np.load(sys.argv[1])
    fresh = new_model()
    np.save(
        sys.argv[2],
        np.concatenate([learn(fresh, each) for each in np.split(ids, len(ids) // BATCH)]),
    )
