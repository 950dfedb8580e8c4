"""What happens at the ends of steps and epochs: early stopping, learning rates, TensorBoard, callbacks of Keras.

All workers have the same metrics, so all of them decide alike. The state of a callback goes into checkpoints.
"""

import inspect
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf

from akdl.keras.objects import ObjectError, find, learning_rate, name_and_args, set_learning_rate
from akdl.keras.workers import Group

Logs = Dict[str, float]


class Training:
    """The training that callbacks look at.

    Attributes:
        epochs: Epochs that were asked for.
        stop: Set it to end the training after this epoch.
    """

    def __init__(self, group: Group, model: Any, optimizers: Sequence[Any], user: Any, epochs: int) -> None:
        self.group, self.model, self.optimizers, self.user, self.epochs = group, model, list(optimizers), user, epochs
        self.steps = 0
        self.stop = False

    def weights(self) -> List[Any]:
        """Return the values of the model's variables; all workers have to call this."""
        with self.group.strategy.scope():
            return [variable.numpy() for variable in self.model.variables]

    def set_weights(self, values: Sequence[Any]) -> None:
        """Set the model's variables."""
        with self.group.strategy.scope():
            for variable, value in zip(self.model.variables, values):
                variable.assign(value)


class Callback:
    """What every callback has; the methods do nothing.

    Attributes:
        stopped: Why it has ended the training; None when it has not.
    """

    stopped: Optional[str] = None

    def begin(self, training: Training) -> None:
        """Do something before the first step."""

    def epoch_begin(self, training: Training, epoch: int) -> None:
        """Do something before an epoch, which is numbered from 0."""

    def step_end(self, training: Training, loss: Any) -> None:
        """Do something after a step."""

    def epoch_end(self, training: Training, epoch: int, logs: Logs) -> None:
        """Do something after an epoch, with its metrics."""

    def end(self, training: Training) -> None:
        """Do something after the last epoch, or after an error."""

    def state(self) -> Mapping[str, Any]:
        """Return what has to survive an interruption: numbers, texts, None, or lists of arrays."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""


class _Watching(Callback):
    """Watches whether a metric gets better."""

    def __init__(self, monitor: str, mode: str, min_delta: float) -> None:
        if mode not in ("auto", "min", "max"):
            raise ObjectError(f"mode {mode!r}: expected auto, min or max")
        self._monitor, self._delta = monitor, abs(min_delta)
        bigger = any(word in monitor for word in ("acc", "auc", "precision", "recall", "f1", "ndcg"))
        self._sign = -1.0 if mode == "max" or (mode == "auto" and bigger) else 1.0
        self._best: Optional[float] = None
        self._waited = 0

    def _improved(self, logs: Logs) -> bool:
        if self._monitor not in logs:
            raise ObjectError(f"callbacks: there is no metric {self._monitor!r} to monitor; the metrics are {', '.join(logs)}")
        value = self._sign * logs[self._monitor]
        if not np.isnan(value) and (self._best is None or value < self._best - self._delta):
            self._best, self._waited = value, 0
            return True
        self._waited += 1
        return False

    def state(self) -> Mapping[str, Any]:
        return {"best": self._best, "waited": self._waited}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._best, self._waited = state["best"], state["waited"]


class EarlyStopping(_Watching):
    """Ends the training when a metric has not improved for `patience` epochs.

    Args:
        monitor: The metric; with several validation sets `val_auc(0)` and so on.
        patience: Epochs without improvement before the end; 0 ends at the first.
        mode: "min", "max", or "auto", which tells by the metric's name.
    """

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
        self._weights: List[Any] = []

    def epoch_end(self, training: Training, epoch: int, logs: Logs) -> None:
        """Look at the metric."""
        if self._improved(logs):
            if self._restore:
                self._weights = training.weights()
        self._decide()
        training.stop = training.stop or self.stopped is not None

    def end(self, training: Training) -> None:
        """Go back to the best weights."""
        if self._weights:
            training.set_weights(self._weights)

    def state(self) -> Mapping[str, Any]:
        """Return the best value and weights."""
        return dict(super().state(), weights=self._weights)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with them; a longer patience than before goes on with the training."""
        super().restore(state)
        self._weights = list(state["weights"])
        self._decide()

    def _decide(self) -> None:
        if self._waited and self._waited >= self._patience:
            epochs = "1 epoch" if self._waited == 1 else f"{self._waited} epochs"
            self.stopped = f"early_stopping: {self._monitor} has not improved for {epochs}"


class ReduceLROnPlateau(_Watching):
    """Makes the learning rate of all optimizers smaller when a metric has not improved for `patience` epochs.

    Args:
        mode: "min", "max", or "auto", which tells by the metric's name.
    """

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
        """Look at the metric."""
        if not self._improved(logs) and self._waited >= self._patience:
            for optimizer in training.optimizers:
                rate = learning_rate(optimizer)
                set_learning_rate(optimizer, max(self._least, self._factor * (rate or 0.0)))
            self._waited = 0


class LearningRateSchedule(Callback):
    """Sets the learning rate before each epoch.

    Args:
        rates: Epoch, from 0, to the rate from there on: {"0": 0.1, "5": 0.01}.
        function: Name of a function (epoch, rate) -> rate in the user's module, instead of `rates`.
        optimizer: Number of the optimizer, where there are several; None for all.
    """

    def __init__(
        self, rates: Optional[Mapping[str, float]] = None, function: Optional[str] = None, optimizer: Optional[int] = None
    ) -> None:
        if (rates is None) == (function is None):
            raise ObjectError("learning_rate_schedule: give either rates or function")
        self._rates = {int(epoch): rate for epoch, rate in (rates or {}).items()}
        self._function, self._optimizer = function, optimizer

    def epoch_begin(self, training: Training, epoch: int) -> None:
        """Set the rate."""
        chosen = training.optimizers if self._optimizer is None else [training.optimizers[self._optimizer]]
        for optimizer in chosen:
            if self._function is not None:
                function = find("function", self._function, training.user)
                set_learning_rate(optimizer, float(function(epoch, learning_rate(optimizer))))
                continue
            past = [start for start in self._rates if start <= epoch]
            if past:
                set_learning_rate(optimizer, self._rates[max(past)])


class TensorBoard(Callback):
    """Writes metrics for TensorBoard, on the chief: training to `log_dir/train`, validation to `log_dir/validation`."""

    def __init__(self, log_dir: str, every_steps: Optional[int] = None) -> None:
        self.log_dir, self._every = log_dir, every_steps
        self._writers: Dict[str, Any] = {}

    def begin(self, training: Training) -> None:
        """Open the files."""
        if training.group.is_chief:
            self._writers = {name: tf.summary.create_file_writer(f"{self.log_dir}/{name}") for name in ("train", "validation")}

    def step_end(self, training: Training, loss: Any) -> None:
        """Write the loss."""
        if self._every and training.steps % self._every == 0 and self._writers:
            with self._writers["train"].as_default():
                _write_scalar("step_loss", loss, training.steps)

    def epoch_end(self, training: Training, epoch: int, logs: Logs) -> None:
        """Write the metrics."""
        for name, value in logs.items():
            validation = name.startswith("val_")
            if self._writers:
                with self._writers["validation" if validation else "train"].as_default():
                    _write_scalar("epoch_" + (name[len("val_") :] if validation else name), value, epoch)
        for writer in self._writers.values():
            writer.flush()

    def end(self, training: Training) -> None:
        """Close the files."""
        for writer in self._writers.values():
            writer.close()


class KerasCallback(Callback):
    """A callback class of Keras, or one of the user's module made like it.

    It is told of epochs, and of steps without their loss. It sees the model, on which `stop_training` ends the training
    and `optimizer` is the first optimizer; its state is not in checkpoints, only whether it has ended the training.
    """

    def __init__(self, callback: Any) -> None:
        self._callback = callback

    def begin(self, training: Training) -> None:
        """Pass it on."""
        training.model.stop_training = False
        self._callback.set_params({"epochs": training.epochs, "steps": None, "verbose": 0})
        self._callback.set_model(_ModelView(training))
        self._callback.on_train_begin()

    def epoch_begin(self, training: Training, epoch: int) -> None:
        """Pass it on."""
        self._callback.on_epoch_begin(epoch)

    def step_end(self, training: Training, loss: Any) -> None:
        """Pass it on."""
        self._callback.on_train_batch_end(training.steps - 1, {})

    def epoch_end(self, training: Training, epoch: int, logs: Logs) -> None:
        """Pass it on, and stop when it wants to."""
        self._callback.on_epoch_end(epoch, dict(logs))
        if training.model.stop_training:
            self.stopped = f"the callback {type(self._callback).__name__} set stop_training"
            training.stop = True

    def state(self) -> Mapping[str, Any]:
        """Return whether it has ended the training."""
        return {"stopped": self.stopped}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with it."""
        self.stopped = state["stopped"]

    def end(self, training: Training) -> None:
        """Pass it on."""
        self._callback.on_train_end()


class _ModelView:
    """The model with its optimizer, which the model itself does not have: it would be saved with it."""

    def __init__(self, training: Training) -> None:
        vars(self).update(_model=training.model, optimizer=training.optimizers[0])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._model, name, value)


class CheckpointSettings(NamedTuple):
    """When checkpoints are written, and whether training goes on from the last one.

    Without `every_steps` one is written after every `every_epochs` epochs, with it also after every so many steps.
    """

    path: str
    every_epochs: int = 1
    every_steps: Optional[int] = None
    keep: int = 3
    resume: bool = True


_OWN = {
    "earlystopping": EarlyStopping,
    "reducelronplateau": ReduceLROnPlateau,
    "learningrateschedule": LearningRateSchedule,
    "tensorboard": TensorBoard,
}


def make_callbacks(specs: Sequence[Any], user: Any) -> List[Callback]:
    """Return the callbacks of a config but the checkpoint.

    Raises:
        ObjectError: One is not known, or does not take its arguments.
    """
    made: List[Callback] = []
    for spec in specs:
        name, args = name_and_args(spec)
        plain = name.replace("_", "").lower()
        if plain == "checkpoint":
            continue
        if plain == "modelcheckpoint":
            raise ObjectError("callbacks: use checkpoint in place of ModelCheckpoint, because training can resume from it")
        if plain in _OWN and not hasattr(user, name):
            made.append(_with(name, _OWN[plain], args))
            continue
        found = _with(name, find("callback", name, user, tf.keras.callbacks), args)
        made.append(found if isinstance(found, Callback) else KerasCallback(found))
    return made


def checkpoint_settings(specs: Sequence[Any]) -> Optional[CheckpointSettings]:
    """Return the settings of the checkpoint callback; None without one."""
    for spec in specs:
        name, args = name_and_args(spec)
        if name == "checkpoint":
            settings: CheckpointSettings = _with(name, CheckpointSettings, args)
            if min(settings.every_epochs, settings.keep, settings.every_steps or 1) < 1:
                raise ObjectError("callbacks: every_epochs, every_steps and keep of checkpoint are 1 or more")
            return settings
    return None


def _write_scalar(name: str, value: Any, step: int) -> None:
    # `tf.summary.scalar` of newer versions needs the package tensorboard, which is needed only to look at what is written.
    kind = tf.compat.v1.SummaryMetadata
    metadata = kind(plugin_data=kind.PluginData(plugin_name="scalars"))
    tf.summary.write(name, tf.cast(value, tf.float32), step=step, metadata=metadata)


def _with(name: str, kind: Any, args: Mapping[str, Any]) -> Any:
    try:
        return kind(**args)
    except TypeError as error:
        known = ", ".join(one for one in inspect.signature(kind).parameters if one not in ("self", "kwargs"))
        raise ObjectError(f"callback {name}: {error}; its arguments are {known}") from error
