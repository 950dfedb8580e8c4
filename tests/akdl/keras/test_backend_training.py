"""The runner on Keras 3 with PyTorch and JAX, in a Python without TensorFlow: `make test-frameworks`."""

from __future__ import annotations

import io
import json
import pathlib
import subprocess
import zipfile
from typing import Any

import numpy as np
import pytest

from operators import (
    MemSourceBatchOp,
    TF2TableModelTrainBatchOp,
    TFTableModelPredictBatchOp,
    resetEnv,
    useLocalEnv,
)
from tests.support.environment import ENVIRONMENT
from tests.support.frameworks import python_with
from tests.support.leftovers import DEADLINE_S

ROOT = pathlib.Path(__file__).parents[3]
MODULE = """
import keras
import numpy as np

def awf_create_model_fn(units, is_built=True):
    layers = [keras.layers.Dense(units, "relu"), keras.layers.Dense(1)]
    return keras.Sequential([keras.Input([2], name="x")] * is_built + layers)

def awf_create_train_dataset_fn(rows, batch_size):
    x = np.random.rand(rows, 2).astype(np.float32)
    for start in range(0, rows, batch_size):
        yield x[start : start + batch_size], x[start : start + batch_size].sum(axis=1)

def awf_create_val_dataset_fn(rows):
    x = np.arange(2 * rows, dtype=np.float32).reshape(-1, 2) / rows
    return [(x, x.sum(axis=1))]
"""
ON_ROWS = """
import sys
import keras

def awf_create_model_fn():
    return keras.Sequential([keras.Input([2], name="x"), keras.layers.Dense(1, name="y")])

def awf_create_train_dataset_fn(context, batch_size):
    assert "tensorflow" not in sys.modules
    for rows in context.arrays(batch_size):
        yield rows["x"].values.reshape(-1, 2), rows["y"]
"""

pytestmark = pytest.mark.frameworks


def run(
    folder: pathlib.Path, framework: str, tf_config: str = "{}", task: str = "train", **changed: Any
) -> subprocess.CompletedProcess[str]:
    """Run a task in a folder, with a training's config that has these keys changed."""
    config = {
        "model_args": {"units": 4}, "train_data_args": {"rows": 40}, "val_data_args": {"rows": 8},
        "batch_size": 16, "epochs": 2, "seed": 5, "loss": "mse", "metrics": ["mean_absolute_error"],
        "optimizer": {"name": "adam", "args": {"learning_rate": {"name": "exponential_decay", "args": {
            "initial_learning_rate": 0.1, "decay_steps": 10, "decay_rate": 0.5}}}},
        "save_path": str(folder / "model"), **changed,
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / "module.py").write_text(MODULE)
    (folder / "config.json").write_text(json.dumps(config))
    command = [python_with(framework), "-m", "akdl", "keras", task, "config.json"]
    return subprocess.run(
        [*command, "--module", "module.py"],
        cwd=folder,
        env={
            **ENVIRONMENT,
            "PYTHONPATH": str(ROOT),
            "KERAS_BACKEND": framework,
            "TF_CONFIG": tf_config,
        },
        capture_output=True,
        text=True,
        timeout=4 * DEADLINE_S,
    )


def epochs(done: subprocess.CompletedProcess[str]) -> list[str]:
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("epoch ")]


@pytest.mark.process
@pytest.mark.parametrize(
    ("framework", "changed"),
    [
        ("torch", {}),
        ("jax", {}),
        ("torch", {"model_args": {"units": 4, "is_built": False}}),
        ("torch", {"steps_per_epoch": 1}),
    ],
)
def test_resumed_training_equals_an_uninterrupted_one(
    framework: str, changed: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    kept = {
        **changed,
        "callbacks": [{"name": "checkpoint", "args": {"path": "kept", "keep": 1}}],
    }
    whole = epochs(run(tmp_path / "whole", framework, epochs=4, **changed))
    assert len(whole) == 4 and "mean_absolute_error" in whole[0] and "val_loss" in whole[0]
    first = epochs(run(tmp_path / "parts", framework, **kept))
    rest = epochs(run(tmp_path / "parts", framework, epochs=4, **kept))
    assert [each.partition("  ")[2] for each in first + rest] == [
        each.partition("  ")[2] for each in whole
    ]
    assert len(list((tmp_path / "parts" / "kept").glob("*.h5"))) == 1
    assert (tmp_path / "parts" / "model" / "model.keras").is_file()


@pytest.mark.process
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_weights_become_their_averages_once_at_the_end(
    framework: str, tmp_path: pathlib.Path
) -> None:
    h5py = pytest.importorskip("h5py")
    plain = {"name": "SGD", "args": {"learning_rate": 0.1}}
    averaged = {"name": "SGD", "args": {**plain["args"], "use_ema": True, "ema_momentum": 0.5}}
    lines = [epochs(run(tmp_path / "run", framework, optimizer=each)) for each in (plain, averaged)]
    assert lines[0] == lines[1], "an epoch continues from the weights of the one before"
    with zipfile.ZipFile(tmp_path / "run" / "model" / "model.keras") as file:
        saved = h5py.File(io.BytesIO(file.read("model.weights.h5")))
    # The first two variables of the optimizer are its steps and its rate.
    assert np.array_equal(saved["layers/dense/vars/0"], saved["optimizer/vars/2"])


@pytest.mark.process
def test_early_stopping_counts_over_epochs(tmp_path: pathlib.Path) -> None:
    stopping = {"name": "early_stopping", "args": {"patience": 2, "min_delta": 1e9}}
    lines = epochs(run(tmp_path / "run", "torch", epochs=9, callbacks=[stopping]))
    assert len(lines) == 3


@pytest.mark.process
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"callbacks": ["tensor_bored"]}, "callbacks: neither module.py nor Keras has 'tensor_bored'"),
        ({"loss": "mse_of_two"}, "mse_of_two"),
        ({"train_data_args": {"rows": 0}, "steps_per_epoch": 2}, "there are no rows: awf_create_train"),
        ({"callbacks": ["checkpoint"]}, "callback checkpoint: "),
        ({"devices": ["GPU:0"]}, "devices: the backend torch chooses the device: remove the key"),
    ],
    ids=["callback", "loss", "rows", "path", "devices"],
)  # fmt: skip
def test_wrong_names_and_empty_datasets_are_refused(
    changed: dict[str, Any], error: str, tmp_path: pathlib.Path
) -> None:
    done = run(tmp_path / "run", "torch", **changed)
    assert done.returncode != 0 and error in done.stderr, done.stderr


@pytest.mark.process
def test_group_is_refused(tmp_path: pathlib.Path) -> None:
    cluster = {"chief": ["localhost:1"], "worker": ["localhost:2"]}
    done = run(tmp_path / "run", "torch", json.dumps({"cluster": cluster}))
    assert done.returncode != 0 and "Keras trains in one process, with one" in done.stderr


@pytest.mark.process
@pytest.mark.parametrize("task", ["evaluate", "predict"])
def test_tasks_of_tensorflow_are_refused_before_the_config_is_read(
    task: str, tmp_path: pathlib.Path
) -> None:
    done = run(tmp_path / "run", "torch", task=task, epochs="a mistake")
    error = (
        f"{task}: the {task} config has a mistake:\n- with its backend torch Keras only trains: "
    )
    assert done.returncode == 2 and done.stderr.startswith(error), done.stderr


@pytest.mark.flink
@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_model_of_an_operator_predicts(framework: str, tmp_path: pathlib.Path) -> None:
    python = python_with(framework)
    (tmp_path / "on_rows.py").write_text(ON_ROWS)
    config = {"batch_size": 8, "epochs": 60, "loss": "mse", "seed": 1,
              "optimizer": {"name": "Adam", "args": {"learning_rate": 0.1}}}  # fmt: skip
    useLocalEnv(1)
    try:
        cells = [([a / 4, b / 4], (a + 2 * b) / 4) for a in range(4) for b in range(4)]
        rows = MemSourceBatchOp(cells, "x ARRAY<FLOAT>, y FLOAT")
        train = TF2TableModelTrainBatchOp(
            mainScriptFile=str(tmp_path / "on_rows.py"), pythonEnv=python, numWorkers=1, numPSs=0,
            envVars=[f"KERAS_BACKEND={framework}"], userParams={"config": config},
        )  # fmt: skip
        predict = TFTableModelPredictBatchOp(
            selectedCols=["x"], reservedCols=["y"], outputSchemaStr="guess FLOAT", pythonEnv=python,
            envVars=[f"KERAS_BACKEND={framework}"],
        )  # fmt: skip
        found = predict.linkFrom(rows.link(train), rows).collectToDataframe()
    finally:
        resetEnv()
    assert list(found.guess) == pytest.approx(list(found.y), abs=0.1)
