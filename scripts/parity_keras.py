"""Weights of the Keras runner beside those of `Model.fit`: see `scripts/parity.py`.

Every case trains the same rows with the same seed: with `akdl keras` or in an operator on a Flink
table, and with Keras alone, in a process of its own. `rows` returns the largest difference between
the weights of both.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
from parity_estimator import ROOT, Row, run_workers

SCRIPTS = ROOT / "tests" / "akdl" / "keras" / "scripts"
MODEL = {"name": "mlp_model", "input_size": 6, "layers": [8, 4]}
ROWS, EPOCHS, SEED, RATE = 48, 4, 5, 0.5
RESCALED = "perceptron, 2 workers, 3 from step 6 on, 2 from step 11 on; plain: one process"


def rows(pythons: dict[str, str]) -> list[Row]:
    """Return a row for each case and TensorFlow.

    Args:
        pythons: Version of TensorFlow to the interpreter that has it.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="parity-") as name:
        folder = pathlib.Path(name)
        _write_rows(folder)
        for version, python in pythons.items():
            place = folder / version
            place.mkdir()
            plain = _plain(python, place, 12)
            for workers in (1, 2, 3):
                ours = _trained(python, place / f"of-{workers}", workers, [EPOCHS])
                case = (
                    "perceptron, one process"
                    if workers == 1
                    else f"perceptron, {workers} workers in step; plain: one process"
                )
                found.append(Row(case, version, difference(ours, plain)))
            resumed = _trained(python, place / "resumed", 1, [EPOCHS // 2, EPOCHS])
            found.append(
                Row(
                    "perceptron, interrupted and resumed; plain: not interrupted",
                    version,
                    difference(resumed, plain),
                )
            )
            left = (
                _trained(python, place / "left", 2, [EPOCHS // 2]),
                _trained(python, place / "left", 1, [EPOCHS]),
            )
            found.append(
                Row(
                    "perceptron, two workers, resumed by one; plain: one process",
                    version,
                    difference(left[1], plain),
                )
            )
            found.append(Row(RESCALED, version, rescaled(python, folder, place)))
    return found


def rescaled(python: str, data: pathlib.Path, folder: pathlib.Path) -> float:
    """Return the difference after 2, 3 and 2 workers; the number changes inside a pass, whose steps
    are epochs here.
    """
    _write_rows(data)
    for workers, steps in ((2, 6), (3, 11), (2, 4 * EPOCHS)):
        ours = _trained(python, folder / "rescaled", workers, [steps], steps_per_epoch=1)
    return difference(ours, _plain(python, folder, 12))


def rows_on_flink(version: str) -> list[Row]:
    """Return rows of operators on a Flink table, with the TensorFlow of this Python. A step takes
    all rows, in any order.
    """
    found = []
    with tempfile.TemporaryDirectory(prefix="parity-") as name:
        folder = pathlib.Path(name)
        _write_rows(folder)
        plain = _plain(sys.executable, folder, ROWS)
        for workers in (1, 2):
            case = (
                f"perceptron, rows of a Flink table, {workers} worker{'s' * (workers > 1)}; plain:"
                " rows of a file"
            )
            found.append(
                Row(
                    case,
                    version,
                    difference(
                        _trained_on_flink(folder / f"flink-{workers}", folder, workers), plain
                    ),
                )
            )
    return found


def difference(ours: list[Any], plain: list[Any]) -> float:
    """Return the largest difference between two weights."""
    return max(float(np.abs(mine - theirs).max()) for mine, theirs in zip(ours, plain))


def _write_rows(folder: pathlib.Path) -> None:
    sys.path.insert(0, str(ROOT))
    from tests.akdl.keras.support import write_csv

    write_csv(folder / "train.csv", ROWS)


def _config(
    folder: pathlib.Path, batch_size: int, epochs: int, data: dict[str, Any]
) -> dict[str, Any]:
    return {
        "model_args": MODEL,
        "train_data_args": data,
        "val_data_args": data,
        "batch_size": batch_size,
        "epochs": epochs,
        "seed": SEED,
        "optimizer": {"name": "SGD", "args": {"learning_rate": RATE}},
        "loss": "binary_crossentropy",
        "callbacks": [{"name": "checkpoint", "args": {"path": str(folder / "checkpoints")}}],
    }


def _trained(
    python: str, folder: pathlib.Path, workers: int, epochs: list[int], **more: int
) -> list[Any]:
    """Train up to each of the epochs, one run after the other, and return the weights of the last
    checkpoint.
    """
    from tests.akdl.keras.support import weights_in

    folder.mkdir(exist_ok=True)
    for each in epochs:
        data = {"file": "${DATA_PATH}$/train.csv", "skip_head": True, "dim": 7}
        (folder / "config.json").write_text(json.dumps({**_config(folder, 12, each, data), **more}))
        options = ["--module", str(SCRIPTS / "mlp.py"), "--data-path", str(folder.parent.parent)]
        run_workers(
            [python, "-m", "akdl", "keras", "train", str(folder / "config.json"), *options], workers
        )
    return weights_in(folder / "checkpoints")


def _trained_on_flink(folder: pathlib.Path, data: pathlib.Path, workers: int) -> list[Any]:
    from operators import MemSourceBatchOp, TF2TableModelTrainBatchOp, useLocalEnv
    from tests.akdl.keras.support import weights_in

    folder.mkdir()
    useLocalEnv(workers)
    lines = [line.split() for line in (data / "train.csv").read_text().splitlines()[1:]]
    cells = [
        (number, [float(value) for value in line[1:]], int(line[0]))
        for number, line in enumerate(lines)
    ]
    table = MemSourceBatchOp(cells, "id BIGINT, x ARRAY<FLOAT>, label INT")
    files = [str(SCRIPTS / "mlp_rows.py"), str(SCRIPTS / "mlp.py")]
    config = _config(folder, ROWS, EPOCHS, {"file": "${DATASET_FILE}$"})
    op = TF2TableModelTrainBatchOp(
        userFiles=files,
        mainScriptFile=files[0],
        userParams={"config": config},
        numWorkers=workers,
        numPSs=0,
    )
    table.link(op).collectToDataframe()
    return weights_in(folder / "checkpoints")


def _plain(python: str, folder: pathlib.Path, batch_size: int) -> list[Any]:
    """Return the weights of `Model.fit` in a process without akdl."""
    out = folder / f"plain-{batch_size}.npz"
    data = folder / "train.csv"
    if not data.is_file():
        data = folder.parent / "train.csv"
    subprocess.run(
        [python, __file__, "--plain", str(data), str(batch_size), str(out)],
        check=True,
        capture_output=True,
    )
    with np.load(out) as arrays:
        return [arrays[f"arr_{number}"] for number in range(len(arrays.files))]


def _fit(data: str, batch_size: int, out: str) -> None:
    import importlib.util

    import tensorflow as tf

    spec = importlib.util.spec_from_file_location("user_module", SCRIPTS / "mlp.py")
    assert spec is not None and spec.loader is not None
    functions = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(functions)
    tf.keras.utils.set_random_seed(SEED)
    model = functions.awf_create_model_fn(**MODEL)
    model.compile(tf.keras.optimizers.SGD(RATE), "binary_crossentropy")
    dataset = functions.awf_create_train_dataset_fn(data, True, 7).batch(batch_size)
    model.fit(dataset, epochs=EPOCHS, shuffle=False, verbose=0)
    np.savez(out, *model.get_weights())


if __name__ == "__main__":
    _fit(sys.argv[2], int(sys.argv[3]), sys.argv[4])
