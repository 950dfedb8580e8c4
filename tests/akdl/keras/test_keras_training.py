"""Training in one process and in groups: equal weights, resumption, validation, what is saved."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from akdl.storage.training_folders import CheckpointFolder, ask_to_stop
from akdl.user_code.module import load_module
from tests.akdl.keras.support import (
    SCRIPTS,
    averaged_args,
    load,
    mlp_config,
    run_cli,
    script,
    user_module,
    weights_in,
    without_val,
)
from tests.support.tf_group import ROOT

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

SHUFFLED = {
    "model_args": {"dropout": 0.3},
    "train_data_args": {"rows": 37},
    "batch_size": 8,
    "seed": 3,
    "optimizer": {"name": "adam", "args": {"learning_rate": 0.02}},
    "loss": "binary_crossentropy",
    "metrics": ["accuracy"],
}


def train(config: dict[str, Any], module: Any, folder: Path | None = None) -> Any:
    from akdl.keras.keras_training import train

    return train(config, module, {"DATA_PATH": str(folder)})


def assert_equal_weights(one: list[Any], other: list[Any], tolerance: float = 0.0) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.long
def test_mlp_learns_validates_and_is_saved(tmp_path: Path) -> None:
    config = mlp_config(tmp_path, rows=400, epochs=4, save_path="${DATA_PATH}$/model")
    result = train(config, script("mlp"), tmp_path)
    assert result.model.name == "mlp_model"
    assert [layer.units for layer in result.model.layers[1:]] == [8, 4, 1]
    assert list(result.history[-1]) == ["loss", "auc", "val_loss", "val_auc"]
    assert result.history[-1]["val_auc"] > 0.9
    assert result.steps == 4 * 34
    x = np.random.default_rng(0).normal(size=(9, 6)).astype(np.float32)
    np.testing.assert_allclose(load(result.saved)(x), result.model(x), atol=1e-6)


@pytest.mark.long
def test_mlp_batches_of_the_function_and_of_the_runner_are_the_same(tmp_path: Path) -> None:
    config = mlp_config(tmp_path)
    results = [train(config, script(name), tmp_path) for name in ("mlp", "mlp_batched")]
    assert results[0].history == results[1].history
    assert_equal_weights(*[result.model.get_weights() for result in results])


# Keras 3 says so of any dataset of unknown length
@pytest.mark.filterwarnings("ignore:Your input ran out of data")
@pytest.mark.parametrize("is_averaged", [False, True])
def test_mlp_equals_keras_itself(tmp_path: Path, is_averaged: bool) -> None:
    """Batches of full size: Keras takes the same mean then."""
    import tensorflow as tf

    module, args = script("mlp"), averaged_args() if is_averaged else {"learning_rate": 0.5}
    optimizer = {"name": "SGD", "args": args}
    config = without_val(mlp_config(tmp_path, rows=48, optimizer=optimizer))
    vars(module).pop("awf_create_val_dataset_fn")
    result = train(config, module, tmp_path)
    tf.keras.utils.set_random_seed(5)
    data_args = {**config["train_data_args"], "file": str(tmp_path / "train.csv")}
    model = module.awf_create_model_fn(**config["model_args"])
    model.compile(tf.keras.optimizers.SGD(**args), "binary_crossentropy", metrics=["AUC"])
    history = model.fit(
        module.awf_create_train_dataset_fn(**data_args).batch(12),
        epochs=2,
        shuffle=False,
        verbose=0,
    ).history
    assert_equal_weights(result.model.get_weights(), model.get_weights(), 1e-6)
    assert [logs["loss"] for logs in result.history] == pytest.approx(history["loss"], rel=1e-5)


def shuffled_config(folder: Path, epochs: int, **checkpoint: Any) -> dict[str, Any]:
    args = {"path": str(folder / "checkpoints"), **checkpoint}
    return {**SHUFFLED, "epochs": epochs, "callbacks": [{"name": "checkpoint", "args": args}]}


@pytest.mark.parametrize(
    "more", [pytest.param({}, marks=pytest.mark.long), {"steps_per_epoch": 3}], ids=str
)
def test_resumption_after_an_epoch_gives_the_same_weights(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    """With shuffling and dropout: both depend on the seed and the epoch only."""
    whole = train({**shuffled_config(tmp_path / "whole", 4), **more}, script("shuffled"))
    train({**shuffled_config(tmp_path / "parts", 2), **more}, script("shuffled"))
    resumed = train({**shuffled_config(tmp_path / "parts", 4), **more}, script("shuffled"))
    assert resumed.history == whole.history
    assert resumed.steps == whole.steps == 4 * more.get("steps_per_epoch", 5)
    assert_equal_weights(resumed.model.get_weights(), whole.model.get_weights())


@pytest.mark.slow
@pytest.mark.parametrize("steps_per_epoch", [None, pytest.param(7, marks=pytest.mark.long)])
def test_resumption_inside_an_epoch_gives_the_same_weights(
    tmp_path: Path, steps_per_epoch: int | None
) -> None:
    import tensorflow as tf

    more = {
        "model_args": {"dropout": 0.0},
        # The second one makes its variables when it is first updated.
        "metrics": ["accuracy", "R2Score"],
        **({"steps_per_epoch": steps_per_epoch} if steps_per_epoch else {}),
    }
    whole = train({**shuffled_config(tmp_path / "whole", 3), **more}, script("shuffled"))
    module = script("shuffled")

    class Interrupt(tf.keras.callbacks.Callback):
        at = 8  # the ninth step; the last checkpoint is of the eighth

        def on_train_batch_end(self, step: int, logs: Any = None) -> None:
            if step == self.at:
                raise KeyboardInterrupt

    module.Interrupt = Interrupt
    config = {**shuffled_config(tmp_path / "parts", 3, every_steps=4, keep=1), **more}
    config["callbacks"].append("Interrupt")
    with pytest.raises(KeyboardInterrupt):
        train(config, module)
    Interrupt.at = -1
    with pytest.raises(ValueError, match="inside an epoch with the metrics that it began with"):
        train({**config, "metrics": ["accuracy"]}, module)
    resumed = train(config, module)
    assert resumed.steps == whole.steps
    for ours, theirs in zip(resumed.history, whole.history):
        assert ours == pytest.approx(theirs, rel=1e-6)
    assert_equal_weights(resumed.model.get_weights(), whole.model.get_weights())


def test_resumption_refuses_a_checkpoint_of_another_training(tmp_path: Path) -> None:
    from akdl.training.checkpoints import CheckpointError

    config = shuffled_config(tmp_path, 1)
    train(config, script("shuffled"))
    with pytest.raises(
        CheckpointError,
        match="belongs to another model or another optimizer: optimizer0 has shapes",
    ):
        train({**config, "optimizer": "sgd", "epochs": 2}, script("shuffled"))
    with pytest.raises(CheckpointError, match="belongs to a training with other callbacks"):
        train({**config, "callbacks": [*config["callbacks"], "early_stopping"]}, script("shuffled"))
    other = shuffled_config(tmp_path / "other", 1)
    kinds = [
        {"name": name, "args": {"monitor": "loss"}}
        for name in ("reduce_lr_on_plateau", "early_stopping")
    ]
    train({**other, "callbacks": [*other["callbacks"], kinds[0]]}, script("shuffled"))
    with pytest.raises(CheckpointError, match="belongs to a training with other callbacks"):
        train(
            {**other, "epochs": 2, "callbacks": [*other["callbacks"], kinds[1]]}, script("shuffled")
        )


# SGD on the same global batches; float32 sums in another order: weights within 1e-5.
@pytest.mark.parametrize(
    ("name", "processes"),
    [
        pytest.param("mlp", 3, marks=pytest.mark.long),
        pytest.param("mlp_batched", 2, marks=pytest.mark.slow),
    ],
)
def test_group_gets_the_weights_of_one_process(tmp_path: Path, name: str, processes: int) -> None:
    """50 rows in steps of 12: the last step has rows for some workers only."""
    checkpoints = {"name": "checkpoint", "args": {"path": "checkpoints"}}
    config = mlp_config(tmp_path, save_path=str(tmp_path / "group"), callbacks=[checkpoints])
    (tmp_path / "config.json").write_text(json.dumps(config))
    arguments = [
        "train",
        "../config.json",
        "--module",
        str(SCRIPTS / f"{name}.py"),
        "--data-path",
        str(tmp_path),
    ]
    outputs = run_cli(tmp_path / "run", processes, arguments)
    assert "epoch 2/2  loss" in outputs[0]
    assert not [output for output in outputs[1:] if "epoch 2/2  loss" in output]
    alone = train(without_callbacks(config), script(name), tmp_path)
    assert alone.steps == 10
    assert_equal_weights(
        weights_in(tmp_path / "run" / "checkpoints"), alone.model.get_weights(), 1e-5
    )
    x = np.random.default_rng(0).normal(size=(9, 6)).astype(np.float32)
    np.testing.assert_allclose(load(tmp_path / "group")(x), alone.model(x), atol=1e-5)
    shown = "  ".join(f"{name} {value:.5g}" for name, value in alone.history[-1].items())
    assert shown in outputs[0]


@pytest.mark.long
def test_resumed_group_gets_the_weights_of_one_process(tmp_path: Path) -> None:
    args = {"path": str(tmp_path / "checkpoints"), "every_steps": 2}
    config = {
        **SHUFFLED,
        "model_args": {"dropout": 0.0},
        "optimizer": "sgd",
        "epochs": 1,
        "callbacks": [{"name": "checkpoint", "args": args}],
        "save_path": str(tmp_path / "model-1"),
    }
    arguments = ["train", "../config.json", "--module", str(SCRIPTS / "shuffled.py")]
    (tmp_path / "config.json").write_text(json.dumps(config))
    run_cli(tmp_path / "first", 2, arguments)
    more = ["--set", "epochs=3", "--set", f"save_path={tmp_path / 'model-2'}"]
    outputs = run_cli(tmp_path / "second", 2, [*arguments, *more])
    assert all("epoch 1/3" not in output for output in outputs)
    assert "resumed from" in outputs[0] and "epoch 3/3" in outputs[0]
    alone = train({**without_callbacks(config), "epochs": 3}, script("shuffled"))
    assert_equal_weights(weights_in(tmp_path / "checkpoints"), alone.model.get_weights(), 1e-5)


@pytest.mark.long
def test_batch_normalization_of_a_group_stays_finite_with_few_rows(tmp_path: Path) -> None:
    """The workers' own means and variances are put together; the last step has a row for one worker
    only.
    """
    config = {
        **SHUFFLED,
        "model_args": {"dropout": 0.0, "normalize": True},
        "train_data_args": {"rows": 25},
        "epochs": 2,
        "callbacks": [{"name": "checkpoint", "args": {"path": str(tmp_path / "checkpoints")}}],
        "save_path": str(tmp_path / "model"),
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    run_cli(
        tmp_path / "run", 2, ["train", "../config.json", "--module", str(SCRIPTS / "shuffled.py")]
    )
    weights = weights_in(tmp_path / "checkpoints")
    assert all(np.isfinite(one).all() for one in weights)
    moving_mean = weights[2]
    assert moving_mean.shape == (4,) and np.abs(moving_mean).max() > 1e-3
    assert np.isfinite(load(tmp_path / "model")(np.ones([3, 4], np.float32))).all()


def test_rows_of_weight_0_count_in_the_mean_only() -> None:
    import tensorflow as tf

    def dataset(weights: list[float]) -> Any:
        return tf.data.Dataset.from_tensor_slices(([[1.0], [5.0]], [[2.0], [1.0]], weights))

    model = tf.keras.Sequential(
        [tf.keras.Input((1,)), tf.keras.layers.Dense(1, kernel_initializer="zeros")]
    )
    module = user_module(
        awf_create_model_fn=lambda: model, awf_create_train_dataset_fn=lambda: dataset([1.0, 0.0])
    )
    sgd = {"name": "SGD", "args": {"learning_rate": 0.5}}
    result = train(
        {"batch_size": 2, "optimizer": sgd, "loss": "mse", "weighted_metrics": ["mae"]}, module
    )
    assert result.history == [{"loss": pytest.approx(2.0), "mae": pytest.approx(2.0)}]
    # d/dw of (w - 2)^2 / 2 at 0 is -2
    assert [float(np.squeeze(value)) for value in model.get_weights()] == pytest.approx([1.0, 1.0])


def test_training_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="awf_create_train_dataset_fn in mlp.py: there are no rows"
    ):
        train(mlp_config(tmp_path, rows=0), script("mlp"), tmp_path)


def test_a_folder_that_is_not_empty_is_refused_before_the_training(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="save_path: .* is not an empty folder"):
        train(mlp_config(tmp_path, save_path=str(tmp_path)), script("mlp"), tmp_path)


def test_model_function_that_returns_no_model_is_refused(tmp_path: Path) -> None:
    module = script("mlp")
    module.awf_create_model_fn = lambda name, input_size, layers: "model"
    with pytest.raises(
        ValueError, match="awf_create_model_fn in mlp.py: expected a tf.keras.Model, got str"
    ):
        train(mlp_config(tmp_path), module, tmp_path)


def tiny(rows: Any, **more: Any) -> Any:
    import tensorflow as tf

    def create() -> Any:
        return tf.keras.Sequential([tf.keras.Input((1,)), tf.keras.layers.Dense(1)])

    data = tf.data.Dataset.from_tensor_slices((rows, [[1.0]] * len(rows)))
    return user_module(awf_create_model_fn=create, awf_create_train_dataset_fn=lambda: data, **more)


def test_a_loss_of_nan_is_an_error_and_nothing_is_saved(tmp_path: Path) -> None:
    config = {
        "batch_size": 1,
        "optimizer": "sgd",
        "loss": "mse",
        "save_path": str(tmp_path / "model"),
    }
    with pytest.raises(
        ValueError, match="the loss is nan since step 2, in epoch 1, and no model is saved"
    ):
        train(config, tiny([[1.0], [float("nan")], [1.0]]))
    assert not list(tmp_path.iterdir())


def test_a_stop_after_a_loss_of_nan_writes_no_checkpoint(tmp_path: Path) -> None:
    from akdl.keras.keras_training import train as run

    folder = CheckpointFolder(str(tmp_path / "checkpoints"), str(tmp_path))
    callback = {"name": "checkpoint", "args": {"path": folder.path}}
    config = {"batch_size": 1, "optimizer": "sgd", "loss": "mse", "callbacks": [callback]}
    ask_to_stop(folder.path)
    with pytest.raises(ValueError, match="the loss is nan since step 1"):
        run(config, tiny([[float("nan")], [1.0]]), folder=folder)
    assert not list(tmp_path.rglob("*.index"))


def test_training_that_stopped_early_resumes_only_with_more_patience(tmp_path: Path) -> None:
    """With a learning rate of 0 nothing improves: the second epoch is the last, unless the patience
    grows.
    """
    from akdl.keras.keras_training import train as run

    def config(epochs: int, patience: int) -> dict[str, Any]:
        stopping = {"name": "early_stopping", "args": {"monitor": "loss", "patience": patience}}
        checkpoints = {"name": "checkpoint", "args": {"path": str(tmp_path)}}
        sgd = {"name": "SGD", "args": {"learning_rate": 0.0}}
        return {
            "batch_size": 2,
            "epochs": epochs,
            "optimizer": sgd,
            "loss": "mse",
            "callbacks": [checkpoints, stopping],
        }

    lines: list[str] = []
    module = tiny([[1.0], [2.0]])
    assert len(run(config(5, 1), module, report=lines.append).history) == 2
    assert (
        lines[-1]
        == "stopped early after epoch 2; early_stopping: loss has not improved for 1 epoch"
    )
    lines.clear()
    assert len(run(config(6, 1), module, report=lines.append).history) == 2
    assert lines[-1].startswith(
        "epochs 3 to 6 are not trained: an earlier run stopped after epoch 2 (early_stopping: loss has not improved"
    )
    assert len(run(config(6, 3), module, report=lines.append).history) == 4


def without_callbacks(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in ("callbacks", "save_path")}


@pytest.mark.long
def test_other_numbers_of_workers_make_the_steps_of_one_process(tmp_path: Path) -> None:
    """2 workers, 3 from step 6 on and 2 from step 11 on, each inside a pass over the rows; see
    docs/parity.md.
    """
    parity = load_module(str(ROOT / "scripts" / "parity_keras.py"))
    (tmp_path / "of").mkdir()
    assert parity.rescaled(sys.executable, tmp_path, tmp_path / "of") <= 1e-6
