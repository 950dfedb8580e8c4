"""Weights of the Estimator runner beside those of plain `tf.estimator`: `python
scripts/parity_estimator.py`.

Every case trains twice, in processes of its own: with `akdl estimator`, and with `tf.estimator`
alone. `rows` returns the largest difference between the weights of both; this file run with
`--plain` is the process without akdl.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
from typing import Any, NamedTuple

ROOT = pathlib.Path(__file__).parents[1]
# the order of its rows has a seed
LINEAR = ROOT / "tests" / "akdl" / "estimator" / "scripts" / "linear.py"
STEPS = 40


class Row(NamedTuple):
    """A line of the table: a case, the TensorFlow that it ran on, and the largest difference
    between two weights.
    """

    case: str
    tensorflow: str
    difference: float


def rows(pythons: dict[str, str]) -> list[Row]:
    """Return a row for each case and TensorFlow.

    Args:
        pythons: Version of TensorFlow to the interpreter that has it.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="parity-") as name:
        folder = pathlib.Path(name)
        for version, python in pythons.items():
            ours, plain = (
                _Training(python, folder / f"ours-{version}"),
                _Training(python, folder / f"plain-{version}", plain=True),
            )
            shuffled = [one.run("shuffled", [STEPS], {"shuffled": True}) for one in (ours, plain)]
            found.append(Row("line, batches of shuffled rows", version, _difference(*shuffled)))
            whole = plain.run("whole", [STEPS])
            resumed = ours.run("resumed", [STEPS // 2, STEPS])
            found.append(
                Row(
                    "line, interrupted and resumed; plain: not interrupted",
                    version,
                    _difference(resumed, whole),
                )
            )
            # Both workers read the same rows, so a step of both is a step of one; of their steps,
            # half are of each.
            together = ours.run("together", [2 * STEPS], workers=2)
            found.append(
                Row(
                    "line, two workers in step; plain: one process",
                    version,
                    _difference(together, whole),
                )
            )
    return found


class _Training:
    """One of the two ways to train, in a Python."""

    def __init__(self, python: str, folder: pathlib.Path, plain: bool = False) -> None:
        self._python, self._folder, self._plain = python, folder, plain

    def run(
        self,
        name: str,
        max_steps: list[int],
        params: dict[str, Any] | None = None,
        workers: int = 1,
    ) -> dict[str, Any]:
        """Train up to each of the steps, one run after the other, and return the weights."""
        model_dir, file = self._folder / name, self._folder / f"{name}.json"
        self._folder.mkdir(parents=True, exist_ok=True)
        for steps in max_steps:
            file.write_text(
                json.dumps(
                    {**(params or {}), "train_max_steps": steps, "save_checkpoints_steps": 1000}
                )
            )
            if self._plain:
                command = [self._python, __file__, "--plain", str(file), str(model_dir)]
            else:
                options = [
                    "--module",
                    str(LINEAR),
                    "--path",
                    "none",
                    "--params",
                    str(file),
                    "--model-dir",
                    str(model_dir),
                ]
                command = [self._python, "-m", "akdl", "estimator", "train", *options]
            run_workers(command, workers)
        return _weights(model_dir)


def run_workers(command: list[str], workers: int) -> None:
    """Run a command in each worker of a group, and raise what one of them printed that did not end
    well.
    """
    sys.path.insert(0, str(ROOT))
    from tests.support.ports import free_ports
    from tests.support.tf_group import PythonProcess

    cluster = {"worker": [f"127.0.0.1:{port}" for port in free_ports(workers)]}
    processes: list[PythonProcess] = []
    with tempfile.TemporaryDirectory(prefix="parity-") as name:
        logs = [pathlib.Path(name, str(index)) for index in range(workers)]
        try:
            for index, log in enumerate(logs):
                task = {"cluster": cluster, "task": {"type": "worker", "index": index}}
                tf_config = json.dumps(task if workers > 1 else {})
                python = None if command[0] == sys.executable else command[0]
                processes.append(
                    PythonProcess(
                        command[1:], {"TF_CONFIG": tf_config}, pathlib.Path(name), log, python
                    )
                )
            for process, log in zip(processes, logs):
                process.wait(600)
                if process.returncode:
                    raise RuntimeError(log.read_text(errors="replace")[-3000:])
        finally:
            for process in processes:
                process.kill()


def _train_plain(params_file: str, model_dir: str) -> None:
    """Train the four functions without akdl."""
    import importlib.util

    import tensorflow as tf

    spec = importlib.util.spec_from_file_location("user_module", LINEAR)
    assert spec is not None and spec.loader is not None
    functions = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(functions)
    params = json.loads(pathlib.Path(params_file).read_text())
    config = tf.estimator.RunConfig(
        model_dir=model_dir, save_checkpoints_steps=params["save_checkpoints_steps"]
    )
    estimator = tf.estimator.Estimator(functions.model_fn, config=config, params=params)
    estimator.train(
        lambda: functions.train_input_fn("none", params), max_steps=params["train_max_steps"]
    )


def _weights(model_dir: pathlib.Path) -> dict[str, Any]:
    import tensorflow as tf

    checkpoint = tf.train.latest_checkpoint(str(model_dir))
    names = [name for name, _ in tf.train.list_variables(checkpoint) if name != "global_step"]
    return {name: tf.train.load_variable(checkpoint, name) for name in names}


def _difference(ours: dict[str, Any], plain: dict[str, Any]) -> float:
    if sorted(ours) != sorted(plain):
        raise RuntimeError(f"different weights: {sorted(ours)} and {sorted(plain)}")
    return max(float(abs(ours[name] - plain[name]).max()) for name in ours)


def main() -> None:
    """Print the table, for this Python and, where it can be installed, for TensorFlow 1.15."""
    if sys.argv[1:2] == ["--plain"]:
        _train_plain(*sys.argv[2:])
        return
    sys.path.insert(0, str(ROOT))
    from tests.support.tensorflows import TF_1

    print("| case | TensorFlow | largest difference |\n|---|---|---|")
    for row in rows({"2.15": sys.executable, "1.15": TF_1.python()}):
        print(f"| {row.case} | {row.tensorflow} | {row.difference:.2g} |")


if __name__ == "__main__":
    main()
