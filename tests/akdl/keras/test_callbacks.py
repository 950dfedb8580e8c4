"""Early stopping, learning rates, TensorBoard, callbacks of Keras."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.akdl.keras.support import user_module

pytestmark = [
    pytest.mark.tf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


def make(spec: Any, user: Any = None) -> Any:
    from akdl.keras.callbacks import make_callbacks

    (made,) = make_callbacks([spec], user or user_module())
    return made


def training(rate: float = 1.0, **more: Any) -> Any:
    import tensorflow as tf

    weights: list[Any] = [0]
    group = SimpleNamespace(is_chief=more.get("is_chief", True))
    return SimpleNamespace(
        group=group,
        stop=False,
        optimizers=[tf.keras.optimizers.SGD(rate)],
        user=more.get("user"),
        steps=0,
        epochs=9,
        heads=more.get("heads", ()),
        model=SimpleNamespace(),
        weights=lambda: list(weights),
        set_weights=lambda values: weights.__setitem__(slice(None), values),
    )


def epochs(callback: Any, run: Any, values: list[float], name: str = "val_loss") -> int:
    """Return the epochs that were run."""
    for epoch, value in enumerate(values):
        run.set_weights([epoch])
        callback.epoch_end(run, epoch, {"loss": 0.0, name: value})
        if run.stop:
            return epoch + 1
    return len(values)


@pytest.mark.parametrize("name", ["early_stopping", "EarlyStopping"])
def test_early_stopping_smaller_is_better(name: str) -> None:
    assert (
        epochs(make({"name": name, "args": {"patience": 2}}), training(), [3, 2, 2, 1, 1, 1, 0])
        == 6
    )


@pytest.mark.parametrize(
    "monitor",
    ["val_auc(0)", "binary_accuracy", "val_a_auc_1", "val_top5acc", "f1_score", "recall@10"],
)
def test_early_stopping_auc_is_better_when_bigger(monitor: str) -> None:
    callback = make({"name": "early_stopping", "args": {"monitor": monitor, "patience": 1}})
    run = training(heads=["a", "b"])
    assert epochs(callback, run, [0.5, 0.6, 0.7, 0.7], monitor) == 4


@pytest.mark.parametrize(
    "monitor",
    [
        "val_loss(auc)",
        "val_account_mae",
        "val_precision_mae",
        "val_precision_at_mae",
        "accuracy_loss",
        "val_error_of_account",
    ],
)
def test_only_the_words_of_the_metric_itself_choose_the_direction(monitor: str) -> None:
    run = training(heads=["precision", "precision_at", "account", "accuracy"])
    callback = make({"name": "early_stopping", "args": {"monitor": monitor, "patience": 1}})
    assert epochs(callback, run, [0.7, 0.6, 0.5, 0.5], monitor) == 4


def test_early_stopping_restores_the_best_weights() -> None:
    callback = make(
        {"name": "early_stopping", "args": {"patience": 2, "restore_best_weights": True}}
    )
    run = training()
    epochs(callback, run, [3, 1, 2, 2])
    callback.end(run)
    assert run.weights() == [1]


def test_early_stopping_goes_on_from_its_state(tmp_path: Path) -> None:
    import numpy as np

    from akdl.training.checkpoints import restore, save

    spec = {"name": "early_stopping", "args": {"patience": 3, "restore_best_weights": True}}
    first, second, run = make(spec), make(spec), training()
    run.set_weights([np.array(5.0)])
    first.epoch_end(run, 0, {"val_loss": 1.0})
    first.epoch_end(run, 1, {"val_loss": 2.0})
    save(str(tmp_path), 1, True, {"state": first.state()})
    found = restore(str(tmp_path), None)
    assert found is not None
    second.restore(found[1]["state"])
    assert epochs(second, run, [2.0, 2.0, 2.0]) == 2
    second.end(run)
    assert run.weights() == [np.array(5.0)]


def test_early_stopping_refuses_a_metric_that_does_not_exist() -> None:
    with pytest.raises(
        ValueError, match="callbacks: monitor: expected one of loss, val_loss, got 'val_auc'"
    ):
        epochs(make({"name": "early_stopping", "args": {"monitor": "val_auc"}}), training(), [1])


def rate_of(run: Any) -> float:
    from akdl.training.objects import learning_rate

    return learning_rate(run.optimizers[0]) or 0.0


def test_learning_rate_falls_on_a_plateau_down_to_its_bound() -> None:
    callback, run = (
        make(
            {"name": "reduce_lr_on_plateau", "args": {"patience": 2, "factor": 0.5, "min_lr": 0.2}}
        ),
        training(),
    )
    rates = []
    for value in [1, 1, 1, 1, 1, 1, 1, 1]:
        callback.epoch_end(run, 0, {"val_loss": value})
        rates.append(rate_of(run))
    assert rates == pytest.approx([1, 1, 0.5, 0.5, 0.25, 0.25, 0.2, 0.2])


def test_learning_rate_follows_rates_by_epoch() -> None:
    callback, run = (
        make({"name": "learning_rate_schedule", "args": {"rates": {"1": 0.5, "3": 0.25}}}),
        training(),
    )
    rates = []
    for epoch in range(5):
        callback.epoch_begin(run, epoch)
        rates.append(rate_of(run))
    assert rates == [1, 0.5, 0.5, 0.25, 0.25]


def test_learning_rate_follows_a_function_of_the_user() -> None:
    user = user_module(halve=lambda epoch, rate: rate / 2 if epoch else rate)
    callback, run = (
        make({"name": "learning_rate_schedule", "args": {"function": "halve"}}),
        training(user=user),
    )
    for epoch in range(3):
        callback.epoch_begin(run, epoch)
    assert rate_of(run) == 0.25


def test_tensor_board_of_the_chief_writes_scalars(tmp_path: Path) -> None:
    import tensorflow as tf

    callback = make({"name": "tensorboard", "args": {"log_dir": str(tmp_path), "every_steps": 2}})
    run = training()
    callback.begin(run)
    for run.steps in (1, 2):
        callback.step_end(run, 0.5)
    callback.epoch_end(run, 0, {"loss": 0.25, "val_loss": 0.75})
    callback.end(run)
    found = {}
    for part in ("train", "validation"):
        (file,) = (tmp_path / part).iterdir()
        for record in tf.data.TFRecordDataset(str(file)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                found[part, value.tag, event.step] = float(tf.make_ndarray(value.tensor))
    assert found == {
        ("train", "step_loss", 2): 0.5,
        ("train", "epoch_loss", 0): 0.25,
        ("validation", "epoch_loss", 0): 0.75,
    }


def test_tensor_board_of_other_workers_writes_nothing(tmp_path: Path) -> None:
    callback = make({"name": "TensorBoard", "args": {"log_dir": str(tmp_path / "logs")}})
    run = training(is_chief=False)
    callback.begin(run)
    callback.epoch_end(run, 0, {"loss": 0.25})
    callback.end(run)
    assert not (tmp_path / "logs").exists()


def test_keras_callback_is_called_at_epochs_and_can_stop_training() -> None:
    import tensorflow as tf

    class Stop(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            assert float(self.model.optimizer.learning_rate) == 1.0
            self.model.stop_training = logs["loss"] < 1

    callback, run = make("Stop", user_module(Stop=Stop)), training()
    callback.begin(run)
    callback.epoch_end(run, 0, {"loss": 1.0})
    assert not run.stop
    callback.epoch_end(run, 1, {"loss": 0.5})
    assert run.stop


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ModelCheckpoint", "use checkpoint"),
        ("early_stoping", "there is no callback 'early_stoping'.*similar: EarlyStopping"),
        (
            {"name": "tensorboard", "args": {"dir": "x"}},
            "callback tensorboard: .*; its arguments are log_dir, every_steps",
        ),
        (
            {"name": "early_stopping", "args": {"mode": "best"}},
            "mode: expected auto, min or max, got 'best'",
        ),
        ({"name": "learning_rate_schedule"}, "expected either rates or function"),
    ],
)
def test_unknown_and_unsuitable_callbacks_are_refused(spec: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(spec)


def test_checkpoint_settings_are_read_from_the_callback() -> None:
    from akdl.keras.callbacks import checkpoint_settings

    assert checkpoint_settings(["early_stopping"]) is None
    assert checkpoint_settings([{"name": "checkpoint", "args": {"path": "p"}}]) == (
        "p",
        1,
        None,
        3,
        True,
    )
    spelled = {"name": "Check_Point", "args": {"path": "p", "keep": 2}}
    assert checkpoint_settings([spelled]) == ("p", 1, None, 2, True)
    for wrong in ("keep", "every_steps"):
        with pytest.raises(ValueError, match="expected 1 or more"):
            checkpoint_settings([{"name": "checkpoint", "args": {"path": "p", wrong: 0}}])


def test_learning_rate_of_an_optimizer_from_before_tensorflow_2_11_can_be_set() -> None:
    import tensorflow as tf

    from akdl.training.objects import learning_rate, set_learning_rate

    legacy = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
    optimizer = legacy.SGD(0.5)
    set_learning_rate(optimizer, 0.25)
    assert learning_rate(optimizer) == 0.25
    weight = tf.Variable(1.0)
    optimizer.apply_gradients([(tf.constant(1.0), weight)])
    assert weight.numpy() == 0.75
    set_learning_rate(optimizer, 0.5)
    assert learning_rate(optimizer) == 0.5
    with pytest.raises(ValueError, match="is a schedule"):
        set_learning_rate(
            legacy.SGD(tf.keras.optimizers.schedules.ExponentialDecay(1.0, 1, 0.5)), 1.0
        )
