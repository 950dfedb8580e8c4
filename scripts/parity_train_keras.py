"""Weights of `train_keras_model` beside those of `Model.fit`: see `scripts/parity.py`.

Every case trains the same rows from the same first weights, in processes of its own. `rows` returns
the largest difference between the weights of both; this file run with `--train` or `--plain` is
such a process.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
from parity_estimator import ROOT, Row, run_workers
from parity_keras import difference

ROWS, BATCH, EPOCHS = 48, 12, 4
RESCALED = "perceptron, 2 workers, 3 from step 6 on, 2 from step 18 on; plain: one process"
TYPES = {"x": "ARRAY<FLOAT>", "y": "FLOAT"}
INPUT = {
    "example_config": [
        {"name": "x", "dtype": "float", "shape": [6]},
        {"name": "y", "dtype": "float", "shape": [1]},
    ],
    "label_col": "y",
}


def rows(pythons: dict[str, str], groups: list[str]) -> list[Row]:
    """Return a row for each case and TensorFlow.

    Args:
        pythons: Version of TensorFlow to the interpreter that has it.
        groups: The versions on which workers train in step.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="parity-") as name:
        for version, python in pythons.items():
            folder = pathlib.Path(name, version)
            plain = {
                dropout: _plain(python, folder / f"plain-{dropout}", dropout)
                for dropout in (0.0, 0.3)
            }
            seed = {"seed": 3}
            cases: list[tuple[str, float, list[tuple[int, int]], dict[str, Any]]] = [
                ("perceptron with dropout, one process", 0.3, [(1, EPOCHS)], {}),
                (
                    "the same, rows still arriving, with a seed and checkpoints",
                    0.3,
                    [(1, EPOCHS)],
                    {**seed, "arriving": True},
                ),
                (
                    "perceptron, interrupted and resumed; plain: not interrupted",
                    0.0,
                    [(1, EPOCHS // 2), (1, EPOCHS)],
                    seed,
                ),
            ]
            if version in groups:
                cases.append(
                    ("perceptron, 2 workers in step; plain: one process", 0.0, [(2, EPOCHS)], {})
                )
            for number, (case, dropout, runs, options) in enumerate(cases):
                ours = _trained(python, folder / str(number), dropout, runs, options)
                found.append(Row(case, version, difference(ours, plain[dropout])))
            if version in groups:
                found.append(Row(RESCALED, version, rescaled(python, folder)))
    return found


def rescaled(python: str, folder: pathlib.Path) -> float:
    """Return the difference after 2, 3 and 2 workers; a group continues with an epoch, and shares
    are whole batches.
    """
    ours = _trained(
        python,
        folder / "rescaled",
        0.0,
        [(2, 1), (3, 3), (2, EPOCHS)],
        {"seed": 3, "rows": 6 * BATCH},
    )
    return difference(ours, _plain(python, folder / "of-whole-batches", 0.0, rows=6 * BATCH))


def _trained(
    python: str,
    folder: pathlib.Path,
    dropout: float,
    runs: list[tuple[int, int]],
    options: dict[str, Any],
) -> list[Any]:
    """Train with each number of workers up to an epoch, one run after the other, and return the
    weights.
    """
    folder.mkdir(parents=True)
    for workers, epochs in runs:
        given = {"dropout": dropout, "epochs": epochs, "rows": ROWS, **options}
        run_workers([python, __file__, "--train", str(folder), json.dumps(given)], workers)
    return _read(folder)


def _plain(python: str, folder: pathlib.Path, dropout: float, rows: int = ROWS) -> list[Any]:
    folder.mkdir(parents=True)
    command = [
        python,
        __file__,
        "--plain",
        str(folder),
        json.dumps({"dropout": dropout, "rows": rows}),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return _read(folder)


def _read(folder: pathlib.Path) -> list[Any]:
    with np.load(folder / "weights.npz") as arrays:
        return [arrays[f"arr_{number}"] for number in range(len(arrays.files))]


def _data(rows: int) -> tuple[Any, Any]:
    x = np.random.default_rng(1).normal(size=(rows, 6)).astype("float32")
    return x, (x[:, 0] > x[:, 1]).astype("float32")


def _model(dropout: float) -> Any:
    """Return a model whose optimizer counts its steps, and whose dropout draws numbers in each."""
    import tensorflow as tf

    x = tf.keras.Input([6], name="x")
    hidden = tf.keras.layers.Dropout(dropout)(tf.keras.layers.Dense(8, "tanh")(x))
    model = tf.keras.Model({"x": x}, tf.keras.layers.Dense(1, "sigmoid")(hidden))
    model.compile(tf.keras.optimizers.Adam(0.05), "binary_crossentropy")
    return model


def _fit(folder: str, given: dict[str, Any]) -> None:
    import tensorflow as tf

    tf.keras.utils.set_random_seed(5)
    model, (x, y) = _model(given["dropout"]), _data(given["rows"])
    dataset = tf.data.Dataset.from_tensor_slices(({"x": x}, y[:, None])).batch(BATCH)
    model.fit(dataset, epochs=EPOCHS, shuffle=False, verbose=0)
    np.savez(pathlib.Path(folder, "weights.npz"), *model.get_weights())


def _train(folder: str, given: dict[str, Any]) -> None:
    sys.path.insert(0, str(ROOT))
    tf_config = json.loads(os.environ["TF_CONFIG"])
    addresses = tf_config["cluster"]["worker"] if tf_config else ["localhost:0"]
    index = tf_config["task"]["index"] if tf_config else 0
    cluster = {"chief": addresses[:1], **({"worker": addresses[1:]} if addresses[1:] else {})}
    task = {"task_type": "worker" if index else "chief", "task_index": max(0, index - 1)}
    if tf_config:
        os.environ["TF_CONFIG"] = json.dumps(
            {"cluster": cluster, "task": {"type": task["task_type"], "index": task["task_index"]}}
        )
    import tensorflow as tf

    from akdl import testing
    from akdl.engine.strategy import choose_strategy
    from akdl.engine.train import train_keras_model

    x, y = _data(given["rows"])
    # Of each batch, a worker has its part.
    batches = np.split(np.arange(given["rows"]), given["rows"] // BATCH)
    part = np.concatenate([np.array_split(batch, len(addresses))[index] for batch in batches])
    config = {"batch_size": BATCH, "num_epochs": given["epochs"], "shuffle_factor": 0}
    if "seed" in given:
        config["seed"], task["checkpoint_dir"] = (
            given["seed"],
            str(pathlib.Path(folder, "checkpoints")),
        )
    with tempfile.TemporaryDirectory() as work_dir:
        task_config = testing.train_task_config(
            {"x": [row.tolist() for row in x[part]], "y": y[part].tolist()},
            TYPES,
            work_dir,
            num_workers=len(addresses),
            cluster=cluster,
            **task,
        )
        if given.get("arriving"):
            task_config.tf_context.rows.length_beforehand = lambda: None
        strategy = choose_strategy(task_config)
        tf.keras.utils.set_random_seed(5)
        with strategy.scope():
            model = _model(given["dropout"])
        train_keras_model(model, INPUT, config, task_config)
        weights = model.get_weights()
    if not index:
        np.savez(pathlib.Path(folder, "weights.npz"), *weights)


if __name__ == "__main__":
    {"--train": _train, "--plain": _fit}[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3]))
