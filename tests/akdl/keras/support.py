"""Data, configs and groups of processes for the tests of the Keras runner."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from akdl.user_code.module import load_module
from tests.support.deadline import DEADLINE_S
from tests.support.ports import free_ports
from tests.support.tf_group import ROOT, PythonProcess

SCRIPTS = Path(__file__).parent / "scripts"
MLP_ARGS = {"name": "mlp_model", "input_size": 6, "layers": [8, 4]}
WIDE_DEEP_OPTIMIZERS = [
    {"name": "Ftrl", "args": {"learning_rate": 0.1, "l1_regularization_strength": 0.01}},
    {"name": "Adam", "args": {"learning_rate": 0.05}},
]
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "1"}


def script(name: str) -> ModuleType:
    return load_module(str(SCRIPTS / f"{name}.py"))


def user_module(**functions: Any) -> ModuleType:
    module = ModuleType("user")
    vars(module).update(functions)
    return module


def write_csv(path: Path, rows: int, seed: int = 0, header: bool = True) -> Path:
    """Write rows of a label 0 to 3 and 6 features."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(rows, 6))
    label = np.digitize(features[:, 0] + features[:, 1], [-1, 0, 1])
    lines = [
        " ".join([str(one), *(f"{value:.6f}" for value in row)])
        for one, row in zip(label, features)
    ]
    path.write_text("\n".join([*(["label features"] if header else []), *lines]) + "\n")
    return path


def mlp_config(folder: Path, rows: int = 50, **more: Any) -> dict[str, Any]:
    write_csv(folder / "train.csv", rows)
    args = {"file": "${DATA_PATH}$/train.csv", "skip_head": True, "dim": 7}
    return {
        "model_args": MLP_ARGS,
        "train_data_args": args,
        "val_data_args": args,
        "batch_size": 12,
        "epochs": 2,
        "seed": 5,
        "optimizer": {"name": "SGD", "args": {"learning_rate": 0.5}},
        "loss": "binary_crossentropy",
        "metrics": ["AUC"],
        **more,
    }


def averaged_args() -> dict[str, Any]:
    """Return the arguments of an optimizer that keeps averages; skip the test before Keras 2.11."""
    import tensorflow as tf

    if not hasattr(tf.keras.optimizers.SGD, "finalize_variable_values"):
        pytest.skip("optimizers of this Keras keep no averages")
    return {"learning_rate": 0.5, "use_ema": True, "ema_momentum": 0.8}


def wide_deep_by_hand(seed: int, batches: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the weights of the wide and deep model before and after a step per batch (x, y), made
    by hand.
    """
    import tensorflow as tf

    tf.keras.utils.set_random_seed(seed)
    model = script("wide_deep").awf_create_model_fn()
    model(batches[0][0])
    parts = [model.linear_model.trainable_variables, model.dnn_model.trainable_variables]
    optimizers = [
        tf.keras.optimizers.Ftrl(0.1, l1_regularization_strength=0.01),
        tf.keras.optimizers.Adam(0.05),
    ]
    start = model.get_weights()
    for x, y in batches:
        with tf.GradientTape() as tape:
            p = model(x)[:, 0]
            loss = -tf.reduce_mean(y[:, 0] * tf.math.log(p) + (1 - y[:, 0]) * tf.math.log(1 - p))
        for optimizer, gradient, part in zip(optimizers, tape.gradient(loss, parts), parts):
            optimizer.apply_gradients(zip(gradient, part))
    return start, model.get_weights()


def save(model: Any, path: Path) -> str:
    """Write a SavedModel as this version of Keras does."""
    from akdl.tf_version import is_keras_3

    if is_keras_3():
        model.export(str(path), verbose=False)
    else:
        model.save(str(path), save_format="tf")
    return str(path)


def load(path: Any) -> Any:
    """Return a SavedModel as something to call."""
    from akdl.keras.saving import load_model
    from akdl.training.user_functions import UserModule

    return load_model(UserModule(user_module()), str(path), "model")


def weights_in(folder: Path) -> list[Any]:
    """Return the model's variables in the last checkpoint, in their order."""
    import tensorflow as tf

    reader = tf.train.load_checkpoint(str(folder))
    count = sum(name.startswith("model/") for name in reader.get_variable_to_shape_map())
    return [
        reader.get_tensor(f"model/{number}/.ATTRIBUTES/VARIABLE_VALUE") for number in range(count)
    ]


def without_val(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key != "val_data_args"}


def run_cli(
    folder: Path, workers: int, arguments: list[str], timeout_s: float = 5 * DEADLINE_S
) -> list[str]:
    """Run `akdl keras` in each worker of a group and return what each printed; all have to end
    well.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(workers)]}
    processes = []
    logs = [folder / f"log-{index}" for index in range(workers)]
    try:
        for index, log in enumerate(logs):
            tf_config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
            variables = {"TF_CONFIG": tf_config} if workers > 1 else {}
            processes.append(
                PythonProcess(["-m", "akdl", "keras", *arguments], variables, folder, log)
            )
        deadline = time.monotonic() + timeout_s
        while any(process.poll() is None for process in processes):
            failed = [
                log for log, process in zip(logs, processes) if process.poll() not in (None, 0)
            ]
            assert not failed and time.monotonic() < deadline, "\n".join(
                log.read_text()[-3000:] for log in failed or logs
            )
            time.sleep(0.05)
        assert [process.returncode for process in processes] == [0] * workers, "\n".join(
            map(str, processes)
        )
        return [log.read_text() for log in logs]
    finally:
        for process in processes:
            process.kill()
