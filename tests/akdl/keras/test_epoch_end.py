"""Trainings with `train_keras_model` end with the weights of Keras' own `fit`, whichever option is
set.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl import testing
from akdl.rows.file_rows import FileRows

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Your input ran out of data"),  # Keras 3, of validation rows
]

TYPES = {"x": "FLOAT", "y": "FLOAT"}
INPUT = {
    "example_config": [{"name": name, "dtype": "float", "shape": [1]} for name in ("x", "y")],
    "label_col": "y",
}
TRAIN = {"batch_size": 8, "num_epochs": 4, "shuffle_factor": 0}
X = np.linspace(-1, 1, 28).astype("float32")
STEPS = 16


def compiled(**options: Any) -> Any:
    """Return a model whose weights tell each step: Adam counts them, and dropout draws numbers in
    each.
    """
    import tensorflow as tf

    tf.keras.utils.set_random_seed(7)
    x = tf.keras.Input([1], name="x")
    hidden = tf.keras.layers.Dropout(0.4)(tf.keras.layers.Dense(6, "tanh")(x))
    model = tf.keras.Model({"x": x}, tf.keras.layers.Dense(1)(hidden))
    model.compile(tf.keras.optimizers.Adam(0.1), "mse", **options)
    return model


def steps(model: Any) -> int:
    return int(np.asarray(model.optimizer.iterations))


@pytest.fixture(scope="module")
def plain() -> list[Any]:
    """The weights of Keras alone."""
    import tensorflow as tf

    model = compiled()
    model.fit(
        tf.data.Dataset.from_tensor_slices(({"x": X[:, None]}, 2 * X[:, None])).batch(8),
        epochs=4,
        shuffle=False,
        verbose=0,
    )
    assert steps(model) == STEPS
    return list(model.get_weights())


def of_rows(task_config: Any) -> Any:
    """Return a function that gives the rows as a dataset of unknown length."""
    import tensorflow as tf

    return lambda: tf.data.TFRecordDataset(task_config.dataset_file)


# Options, and whether rows still arrive in the form that CI runs; None for those that wait for a
# release.
OPTIONS: list[tuple[dict[str, Any], bool | None]] = [
    ({}, None),
    ({"seed": 3}, None),
    ({"checkpoint_dir": True}, None),
    ({"checkpoint_dir": True, "seed": 3}, None),
    ({"checkpoint_dir": True, "save_checkpoints_steps": 3}, None),
    (
        {
            "checkpoint_dir": True,
            "save_checkpoints_steps": 3,
            "valid_raw_dataset_fn": of_rows,
            "post_process_dataset": lambda rows: rows.map(lambda *parts: parts),
        },
        True,
    ),
    ({"raw_dataset_fn": of_rows}, False),
    ({"valid_raw_dataset_fn": of_rows}, None),
    ({"post_process_dataset": lambda rows: rows.map(lambda *parts: parts)}, None),
    ({"steps_per_execution": 3}, True),
]


@pytest.mark.parametrize(
    ("options", "arriving"),
    [
        pytest.param(
            options,
            arriving,
            id=f"{'-'.join(options) or 'none'}-{rows}",
            marks=[] if arriving is in_ci else pytest.mark.long,
        )
        for options, in_ci in OPTIONS
        for arriving, rows in ((False, "all rows there"), (True, "rows still arriving"))
    ],
)
def test_trained_weights_equal_those_of_keras(
    tmp_path: Path,
    plain: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: dict[str, Any],
    arriving: bool,
) -> None:
    from akdl.engine.train import train_keras_model

    compiling = {key: value for key, value in options.items() if key == "steps_per_execution"}
    if arriving:
        waited: list[bool] = []
        monkeypatch.setattr(
            FileRows, "length_beforehand", lambda self: self.count if waited else None
        )
        monkeypatch.setattr(FileRows, "length", lambda self: waited.append(True) or self.count)
    task = {"checkpoint_dir": str(tmp_path / "checkpoints")} if "checkpoint_dir" in options else {}
    task_config = testing.train_task_config({"x": X, "y": 2 * X}, TYPES, str(tmp_path), **task)
    given = {
        key: value(task_config) if value is of_rows else value
        for key, value in options.items()
        if key not in ("checkpoint_dir", "steps_per_execution")
    }
    model = compiled(**compiling)
    history = train_keras_model(model, INPUT, {**TRAIN, **given}, task_config)
    assert steps(model) == STEPS and len(history.history["loss"]) == 4
    for mine, theirs in zip(model.get_weights(), plain):
        np.testing.assert_array_equal(mine, theirs)
    epochs = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Epoch")]
    assert epochs == [f"Epoch {number}/4" for number in (1, 2, 3, 4)]


@pytest.mark.parametrize("passes", [pytest.param(1, marks=pytest.mark.long), 4])
def test_batches_tell_their_length_to_keras(tmp_path: Path, plain: list[Any], passes: int) -> None:
    task_config = testing.train_task_config({"x": X, "y": 2 * X}, TYPES, str(tmp_path))
    batches = task_config.tf_context.batches(7, num_epochs=passes)
    assert int(batches.cardinality()) == 4 * passes
    model = compiled()
    model.fit(
        batches.map(lambda rows: ({"x": rows["x"][:, None]}, rows["y"])),
        epochs=4 // passes,
        shuffle=False,
        verbose=0,
    )
    assert steps(model) == STEPS
    assert int(task_config.tf_context.flink_stream_dataset().cardinality()) == 28


@pytest.mark.parametrize("rows", [0, 1, 8, 28])
def test_a_worker_reports_its_number_of_batches_at_the_last_one(tmp_path: Path, rows: int) -> None:
    """0 batches too, or the group would not agree on the last step of the epoch."""
    import tensorflow as tf

    from akdl.keras.epoch_end import EpochEnd

    cluster = {"chief": ["localhost:1"], "worker": ["localhost:2"]}
    task_config = testing.train_task_config(
        {"x": X, "y": X}, TYPES, str(tmp_path), cluster=cluster, num_workers=2
    )
    sent: list[list[float]] = []
    data = tf.data.Dataset.from_tensor_slices(({"x": X[:rows]}, X[:rows])).batch(8)
    end = EpochEnd(data, task_config, lambda own: sent.append(own) or own)
    batches = iter(end.data)
    for _ in range(max(1, -(-rows // 8))):
        next(batches, None)
        end.on_train_batch_end(0)
    assert sent[-1] == [1 + -(-rows // 8) * 2, 0.0] and list(batches) == []


def test_batches_of_a_group_tell_no_length(tmp_path: Path) -> None:
    """Keras would take that of a share for the steps of all workers, which are more."""
    import tensorflow as tf

    cluster = {"chief": ["localhost:1"], "worker": ["localhost:2"]}
    task_config = testing.train_task_config(
        {"x": X, "y": X}, TYPES, str(tmp_path), cluster=cluster, num_workers=2
    )
    assert (
        int(task_config.tf_context.batches(7).cardinality())
        == tf.data.experimental.UNKNOWN_CARDINALITY
    )
