"""A small user module, and groups of processes that run one command in every role."""

from __future__ import annotations

import json
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.support.deadline import DEADLINE_S
from tests.support.ports import free_ports
from tests.support.tf_group import ROOT, PythonProcess

EXAMPLES = ROOT / "examples"
SCRIPTS = Path(__file__).parent / "scripts"
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "1"}
QUIET = {"eval_start_delay_secs": 120, "log_step_count_steps": None, "save_checkpoints_steps": 1000}


def linear_module(**changes: Any) -> Any:
    """Return the four functions of y = 2 x + 1, with some of them replaced; None leaves one out.

    `params` understands `batches` (10) and `rate` (0.1). The input functions note what they were
    called with in `calls`.
    """
    import tensorflow.compat.v1 as tf

    calls: list[Any] = []

    def dataset(path: str, params: dict[str, Any]) -> Any:
        calls.append((path, params))
        x = np.linspace(-1, 1, 20, dtype=np.float32)
        return (
            tf.data.Dataset.from_tensor_slices(({"x": x}, 2 * x + 1))
            .batch(20)
            .repeat(params.get("batches", 10))
        )

    def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
        weight, bias = tf.get_variable("weight", []), tf.get_variable("bias", [])
        y = features["x"] * weight + bias
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"y": y})
        loss = tf.losses.mean_squared_error(labels, y)
        if mode == tf.estimator.ModeKeys.EVAL:
            return tf.estimator.EstimatorSpec(mode, loss=loss)
        optimizer = tf.train.GradientDescentOptimizer(params.get("rate", 0.1))
        return tf.estimator.EstimatorSpec(
            mode,
            loss=loss,
            train_op=optimizer.minimize(loss, global_step=tf.train.get_global_step()),
        )

    def serving_input_receiver_fn() -> Any:
        return tf.estimator.export.build_raw_serving_input_receiver_fn(
            {"x": tf.placeholder(tf.float32, [1], name="x")}
        )

    functions = {
        "model_fn": model_fn,
        "train_input_fn": lambda path, params: dataset(path, params),
        "eval_input_fn": lambda path, params: dataset(path, params),
        "serving_input_receiver_fn": serving_input_receiver_fn,
        **changes,
    }
    return SimpleNamespace(
        calls=calls,
        **{name: function for name, function in functions.items() if function is not None},
    )


def signature(folder: str, key: str = "serving_default") -> Any:
    """Return a signature of a SavedModel as a function of named tensors."""
    import tensorflow as tf

    loaded = tf.saved_model.load(folder)
    function = loaded.signatures[key]
    function.keep = loaded
    return function


def run_group(
    folder: Path,
    command: list[str],
    roles: list[tuple[str, int]],
    timeout_s: float = 5 * DEADLINE_S,
    python: str | None = None,
) -> dict[str, str]:
    """Run a command of a Python, see `PythonProcess`, in each role and return what each printed;
    all but parameter servers, which are stopped, end well.

    A process whose role is "evaluator" is not in the cluster, as TensorFlow wants it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cluster: dict[str, list[str]] = {}
    for (role, _), port in zip(roles, free_ports(len(roles))):
        if role != "evaluator":
            cluster.setdefault(role, []).append(f"127.0.0.1:{port}")
    processes: dict[str, PythonProcess] = {}
    logs = {f"{role}-{index}": folder / f"log-{role}-{index}" for role, index in roles}
    try:
        for role, index in roles:
            tf_config = json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
            name = f"{role}-{index}"
            processes[name] = PythonProcess(
                command, {"TF_CONFIG": tf_config}, folder, logs[name], python
            )
        deadline = time.monotonic() + timeout_s
        must_end = [process for name, process in processes.items() if not name.startswith("ps")]
        while any(process.poll() is None for process in must_end):
            failed = [
                logs[name] for name, process in processes.items() if process.poll() not in (None, 0)
            ]
            assert not failed and time.monotonic() < deadline, "\n".join(
                log.read_text()[-3000:] for log in failed or logs.values()
            )
            time.sleep(0.05)
        assert [process.returncode for process in must_end] == [0] * len(must_end), "\n".join(
            log.read_text()[-3000:] for log in logs.values()
        )
        return {name: log.read_text() for name, log in logs.items()}
    finally:
        for process in processes.values():
            process.kill()
