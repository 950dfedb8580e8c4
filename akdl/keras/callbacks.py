"""Callbacks at the ends of steps and epochs.

They are early stopping, learning rates, TensorBoard, and callbacks of Keras.

All workers have the same metrics, so their callbacks make the same decisions. The state of a
callback goes into checkpoints.

Keras' own EarlyStopping and ReduceLROnPlateau do not fit: they take `val_auc(0)` for a loss, only
warn of a metric that does not exist, change one of several optimizers, and Keras 2 restores the
best weights before the last checkpoint is written, so that a longer training could not resume from
it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, Mapping, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from akdl.keras.task_configs import is_checkpoint
from akdl.training.objects import find, learning_rate, set_learning_rate
from akdl.training.user_functions import ObjectError, make_with, name_and_args, plain_name
from akdl.training.workers import Group

Logs = Dict[str, float]

# Words of metrics for which bigger is better.
_BIGGER = "acc|accuracy|auc|precision|recall|f1|ndcg"


@dataclass
class Training:
    """The training, for callbacks; set `stop` to end it after this epoch.

    One object per training, made before the first step. Callbacks change it in the thread that
    trains. The names of metrics begin with one of `heads`, the outputs, if there are several.
    """

    group: Group
    model: Any
    optimizers: Sequence[Any]
    user: Any
    epochs: int
    steps: int = 0
    stop: bool = False
    heads: Sequence[str] = ()

    def weights(self) -> list[Any]:
        """Return the values of the model's variables; all workers have to call this."""
        with self.group.strategy.scope():
            return [variable.numpy() for variable in self.model.variables]

    def set_weights(self, values: Sequence[Any]) -> None:
        """Assign values that `weights` has returned."""
        with self.group.strategy.scope():
            for variable, value in zip(self.model.variables, values):
                variable.assign(value)


class Callback:
    """Base of all callbacks, called by the thread that trains.

    Attributes named in `kept` go into checkpoints, as JSON values and arrays. A reason
    in `stopped` ends the training and is shown to the user.
    """

    kept: Sequence[str] = ()
    stopped: str | None = None

    def begin(self, training: Training) -> None:
        """Run before the first step."""

    def epoch_begin(self, training: Training, epoch: int) -> None:
        """Run before an epoch, numbered from 0."""

    def step_end(self, training: Training, loss: Any) -> None:
        """Run after a step."""

    def epoch_end(self, training: Training, epoch: int, logs: Logs) -> None:
        """Run after an epoch, with its metrics."""

    def end(self, training: Training) -> None:
        """Run after the last epoch, or after an error; before the model is saved."""

    def state(self) -> Mapping[str, Any]:
        """Return the attributes that go into a checkpoint."""
        return {name: getattr(self, name) for name in self.kept}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over the attributes of a checkpoint, after `__init__` and before `begin`."""
        vars(self).update(state)


class _Monitor(Callback):
    """Counts in `waited` the epochs without a better metric.

    Mode "auto" chooses the direction by the metric's name.
    """

    kept: Sequence[str] = ("best", "waited")

    def __init__(self, monitor: str, mode: str, min_delta: float) -> None:
        if mode not in ("auto", "min", "max"):
            raise ObjectError(f"callbacks: mode: expected auto, min or max, got {mode!r}")
        self._monitor, self._mode, self._delta = monitor, mode, abs(min_delta)
        self.best: float | None = None
        self.waited = 0

    def _improved(self, training: Training, logs: Logs) -> bool:
        if self._monitor not in logs:
            raise ObjectError(
                f"callbacks: monitor: expected one of {', '.join(logs)}, got {self._monitor!r}"
            )
        is_max = self._mode == "max" or (
            self._mode == "auto" and _is_bigger_better(self._monitor, training.heads)
        )
        value = -logs[self._monitor] if is_max else logs[self._monitor]
        # A NaN is never an improvement, and compares as false with all later values.
        if not np.isnan(value) and (self.best is None or value < self.best - self._delta):
            self.best, self.waited = value, 0
            return True
        self.waited += 1
        return False


class EarlyStopping(_Monitor):
    """Ends the training when a metric has not improved for `patience` epochs.

    The best weights are kept as arrays and restored after the last checkpoint is written. Keras 2
    restores them before, so a longer training could not resume from the last step.
    """

    kept = ("best", "waited", "weights")

    def __init__(
        self,
        monitor: str = "val_loss",
        patience: int = 0,
        min_delta: float = 0.0,
        mode: str = "auto",
        restore_best_weights: bool = False,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self._patience, self._restore = patience, restore_best_weights
        self.weights: list[Any] = []

    def epoch_end(self, training: Training, epoch: int, logs: Logs) -> None:
        # `_improved` comes first: it counts the epochs, whether weights are kept or not.
        if self._improved(training, logs) and self._restore:
            self.weights = training.weights()
        self._decide()
        # Another callback may have asked for the stop already.
        training.stop = training.stop or self.stopped is not None

    def end(self, training: Training) -> None:
        if self.weights:
            training.set_weights(self.weights)

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        # The config may have a larger patience than the run that wrote the checkpoint, and then the
        # training continues.
        self._decide()

    def _decide(self) -> None:
        # After a better epoch `waited` is 0, so patience 0 stops at the first epoch that is not
        # better.
        if self.waited and self.waited >= self._patience:
            epochs = "1 epoch" if self.waited == 1 else f"{self.waited} epochs"
            self.stopped = f"early_stopping: {self._monitor} has not improved for {epochs}"


class ReduceLROnPlateau(_Monitor):
    """Lowers the rates of all optimizers when a metric has not improved for some epochs."""

    def __init__(
        self,
        monitor: str = "val_loss",
        factor: float = 0.1,
        patience: int = 10,
        min_delta: float = 1e-4,
        mode: str = "auto",
        min_lr: float = 0.0,
    ) -> None:
        super().__init__(monitor, mode, min_delta)
        self._factor, self._patience, self._least = factor, patience, min_lr

    def epoch_end(self, training: Training, epoch: int, logs: Logs) -> None:
        if not self._improved(training, logs) and self.waited >= self._patience:
            for optimizer in training.optimizers:
                # An optimizer with a schedule has no rate here, and `set_learning_rate` refuses it.
                set_learning_rate(
                    optimizer, max(self._least, self._factor * (learning_rate(optimizer) or 0.0))
                )
            self.waited = 0


class LearningRateSchedule(Callback):
    """Sets the rate of one optimizer, or all, before each epoch.

    The rates are `{"0": 0.1, "5": 0.01}`, or a function of epoch and rate.
    """

    def __init__(
        self,
        rates: Mapping[str, float] | None = None,
        function: str | None = None,
        optimizer: int | None = None,
    ) -> None:
        if (rates is None) == (function is None):
            raise ObjectError(
                "callbacks: learning_rate_schedule: expected either rates or function"
            )
        self._rates = {int(epoch): rate for epoch, rate in (rates or {}).items()}
        self._function, self._optimizer = function, optimizer

    def epoch_begin(self, training: Training, epoch: int) -> None:
        chosen = (
            training.optimizers
            if self._optimizer is None
            else [training.optimizers[self._optimizer]]
        )
        # A rate holds until the next epoch that has one.
        past = [start for start in self._rates if start <= epoch]
        for optimizer in chosen:
            if self._function is not None:
                function = find("function", self._function, training.user)
                set_learning_rate(optimizer, float(function(epoch, learning_rate(optimizer))))
            elif past:
                set_learning_rate(optimizer, self._rates[max(past)])


class TensorBoard(Callback):
    """Writes metrics for TensorBoard, on the chief.

    Training goes to `log_dir/train`, and validation to `log_dir/validation`.
    """

    def __init__(self, log_dir: str, every_steps: int | None = None) -> None:
        self.log_dir, self._every = log_dir, every_steps
        self._writers: dict[str, Any] = {}

    def begin(self, training: Training) -> None:
        if training.group.is_chief:
            self._writers = {
                name: tf.summary.create_file_writer(f"{self.log_dir}/{name}")
                for name in ("train", "validation")
            }

    def step_end(self, training: Training, loss: Any) -> None:
        # Only the chief has writers; all workers have the same metrics.
        if self._writers and self._every and training.steps % self._every == 0:
            with self._writers["train"].as_default():
                _write_scalar("step_loss", loss, training.steps)

    def epoch_end(self, training: Training, epoch: int, logs: Logs) -> None:
        for part, writer in self._writers.items():
            with writer.as_default():
                for name, value in logs.items():
                    if name.startswith("val_") == (part == "validation"):
                        _write_scalar(
                            "epoch_" + (name[len("val_") :] if part == "validation" else name),
                            value,
                            epoch,
                        )
            # TensorBoard shows a training while it runs.
            writer.flush()

    def end(self, training: Training) -> None:
        for writer in self._writers.values():
            writer.close()


class KerasCallback(Callback):
    """A callback class of Keras, or of the user's module.

    It is called for epochs, and for steps without their loss.

    On its model, `stop_training` ends the training and `optimizer` is the first optimizer. Its
    state is not in checkpoints.
    """

    # A training that a callback has stopped stays stopped when it is resumed.
    kept = ("stopped",)

    def __init__(self, callback: Any) -> None:
        self._callback = callback

    def begin(self, training: Training) -> None:
        # `fit` of Keras sets this attribute before each training, and callbacks rely on it.
        training.model.stop_training = False
        self._callback.set_params({"epochs": training.epochs, "steps": None, "verbose": 0})
        self._callback.set_model(_ModelView(training))
        self._callback.on_train_begin()

    def epoch_begin(self, training: Training, epoch: int) -> None:
        self._callback.on_epoch_begin(epoch)

    def step_end(self, training: Training, loss: Any) -> None:
        # Keras numbers steps from 0. The loss is left out, because reading it waits for the device.
        self._callback.on_train_batch_end(training.steps - 1, {})

    def epoch_end(self, training: Training, epoch: int, logs: Logs) -> None:
        self._callback.on_epoch_end(epoch, dict(logs))
        if training.model.stop_training:
            self.stopped = f"the callback {type(self._callback).__name__} set stop_training"
            training.stop = True

    def end(self, training: Training) -> None:
        self._callback.on_train_end()


class _ModelView:
    """The model with its optimizer, for callbacks of Keras.

    An attribute of the model itself would be tracked and saved with it, so the optimizer is added
    to this view instead.
    """

    def __init__(self, training: Training) -> None:
        # `vars` goes around `__setattr__`, which would set these two on the model.
        vars(self).update(_model=training.model, optimizer=training.optimizers[0])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._model, name, value)


class CheckpointSettings(NamedTuple):
    """Arguments of the callback `checkpoint`.

    It writes every `every_epochs` epochs, and also every `every_steps` steps.
    """

    path: str
    every_epochs: int = 1
    every_steps: int | None = None
    keep: int = 3
    resume: bool = True


_OWN = {
    "earlystopping": EarlyStopping,
    "reducelronplateau": ReduceLROnPlateau,
    "learningrateschedule": LearningRateSchedule,
    "tensorboard": TensorBoard,
}


def make_callbacks(specs: Sequence[Any], user: Any) -> list[Callback]:
    """Make the callbacks of a config in their order, without `checkpoint`, which the runner does.

    Classes of the user's module come before our own, and these before the classes of Keras.
    """
    made: list[Callback] = []
    for spec in specs:
        name, args = name_and_args(spec)
        if is_checkpoint(spec):
            continue
        plain = plain_name(name)
        # Its files have no position in the data, so a training could not resume from them.
        if plain == "modelcheckpoint":
            raise ObjectError(
                "callbacks: use checkpoint in place of ModelCheckpoint, because training can resume"
                " from it"
            )
        # Any other class may be one of ours that the user has derived, or one of Keras.
        is_own = plain in _OWN and not hasattr(user, name)
        kind = _OWN[plain] if is_own else find("callback", name, user, tf.keras.callbacks)
        found = make_with(f"callback {name}", kind, args)
        made.append(found if isinstance(found, Callback) else KerasCallback(found))
    return made


def checkpoint_settings(specs: Sequence[Any]) -> CheckpointSettings | None:
    """Return the arguments of the callback `checkpoint`; None without this callback."""
    for spec in specs:
        name, args = name_and_args(spec)
        if is_checkpoint(spec):
            settings: CheckpointSettings = make_with(f"callback {name}", CheckpointSettings, args)
            steps = 1 if settings.every_steps is None else settings.every_steps
            if min(settings.every_epochs, settings.keep, steps) < 1:
                raise ObjectError(
                    "callbacks: every_epochs, every_steps and keep of checkpoint: expected 1 or"
                    " more"
                )
            return settings
    return None


def _is_bigger_better(monitor: str, heads: Sequence[str]) -> bool:
    """Guess the direction of a metric from the words of its own name.

    An output's name before it, and the key of a dataset in parentheses behind it, may have such
    words too, as in `val_precision_mae` and `val_loss(auc)`.
    """
    metric = re.sub("^val_", "", monitor.partition("(")[0])
    prefixes = [f"{head}_" for head in heads if metric.startswith(f"{head}_")]
    own = metric[len(max(prefixes, key=len, default="")) :]
    return re.search(f"(?<![a-z])({_BIGGER})(?![a-z])", own.lower()) is not None


def _write_scalar(name: str, value: Any, step: int) -> None:
    """Write one value in the form that TensorBoard's plugin "scalars" reads."""
    # In newer versions `tf.summary.scalar` needs the package tensorboard, which is only necessary
    # to view the files.
    kind = tf.compat.v1.SummaryMetadata
    metadata = kind(plugin_data=kind.PluginData(plugin_name="scalars"))
    tf.summary.write(name, tf.cast(value, tf.float32), step=step, metadata=metadata)
