"""`model.fit` with checkpoints, reports and requests to stop.

A process alone resumes inside an epoch, after the rows that it has trained on; a group repeats an
unfinished epoch.
"""

from __future__ import annotations

import functools
import logging
import time
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

import numpy as np
import tensorflow as tf

from akdl.keras.epoch_end import EpochEnd
from akdl.runner.config import TaskConfig
from akdl.storage.training_folders import CheckpointFolder
from akdl.tf_version import is_keras_3
from akdl.training.averages import averaged_later
from akdl.training.checkpoints import best_checkpoints, restore, save
from akdl.training.training_watch import TrainingWatch
from akdl.training.workers import is_parameter_server_strategy, sum_over_workers
from akdl.user_code.config_file import Config

KEYS = {"seed"}

logger = logging.getLogger(__name__)

# Metrics of a step or an epoch by name, as Keras passes them to callbacks.
KerasLogs = Optional[Mapping[str, Any]]
# A step of a model. The values that it returns are tensors.
_Step = Callable[[object], Mapping[str, float]]


class Plan(NamedTuple):
    """The arguments of `fit`.

    `input_fn` returns the training data: one pass over the rows, or infinitely many if `steps`, the
    steps of an epoch, is set. Its argument `seed` fixes the order of the rows. Of `train_config`,
    `seed` and the keys for checkpoints are read.

    A checkpoint is written after every `every_epochs` epochs and after the last one, and in a
    process alone also when `every_secs` seconds have passed; `callbacks` are further callbacks.
    """

    input_fn: Callable[..., Any]
    valid_fn: Callable[[], Any] | None
    epochs: int
    steps: int | None
    train_config: Config
    every_epochs: int = 1
    every_secs: float | None = None
    callbacks: Sequence[Any] = ()


def fit(model: Any, plan: Plan, task_config: TaskConfig) -> Any:
    """Fit a compiled model from the last checkpoint on, and return the `History` of all epochs.

    The checkpoints are in `task_config.checkpoint_dir`; without it the training begins at step 0.
    The epochs of earlier attempts are in the history too, since checkpoints contain it, except for
    an epoch whose process was killed after its last step, before the metrics were saved.

    Raises:
        ValueError: A checkpoint of another model, workers that see different folders, or a wrong
            config.
    """
    average = averaged_later(model)
    history = _Fit(model, plan, task_config).run()
    with model.distribute_strategy.scope():
        average()
    return history


def count_metrics_once(model: Any) -> None:
    """Keep Keras from adding up metrics, which all replicas share, in the logs of a batch.

    From 2.12 on, Keras adds up the logs of all replicas unless the method of reduction is given. An
    accuracy of two workers reached 2.0. So the share of each replica is divided before Keras sums.
    """
    replicas = model.distribute_strategy.num_replicas_in_sync
    if is_keras_3() or replicas == 1 or getattr(model, "distribute_reduction_method", "") != "auto":
        return

    def shared(step: _Step) -> _Step:
        """Wrap a step so that metrics are divided among replicas."""

        def run(data: object) -> Mapping[str, float]:
            logs, names = step(data), {metric.name for metric in model.metrics}
            # Only metrics are divided. Other values of a user's own step may be the replica's share
            # of a sum.
            return {
                name: value / replicas if name in names else value for name, value in logs.items()
            }

        return run

    model.train_step, model.test_step = shared(model.train_step), shared(model.test_step)
    # Functions of an earlier training were traced with the unwrapped steps.
    model.train_function = model.test_function = None
    # "auto" sums as well, but a second call of this function must not divide again: it returns at
    # "sum".
    model.distribute_reduction_method = "sum"


def steps_per_execution(model: object) -> int:
    """Read the number of steps that the model makes in one call; a variable in Keras 2."""
    steps = getattr(model, "_steps_per_execution", None)
    return int(getattr(model, "steps_per_execution", 1) if steps is None else steps.numpy())


class _Fit:
    """One call of `fit`: as many calls of `model.fit` as there are passes over the rows.

    A pass of its own is needed for a fixed order of rows, for a resumed epoch, and for rows whose
    number is not known in advance. One state, `_Progress`, lasts through all of them.
    """

    def __init__(self, model: Any, plan: Plan, task_config: TaskConfig) -> None:
        self._model, self._plan, self._task_config = model, plan, task_config
        strategy = getattr(model, "distribute_strategy", None)
        self._by_servers = is_parameter_server_strategy(strategy)
        total = sum_over_workers(strategy)
        self._total = total
        self._is_alone = total is None and not self._by_servers
        self._is_chief = self._is_alone or task_config.task_type == "chief"
        self._folder: CheckpointFolder | None = None
        if task_config.checkpoint_dir is not None:
            if not tf.executing_eagerly():
                raise ValueError(
                    "checkpointDir: train_keras_model keeps checkpoints only in TensorFlow 2, in"
                    " eager mode"
                )
            self._folder = CheckpointFolder(task_config.checkpoint_dir, task_config.work_dir)
        self._seed = plan.train_config.get("seed")
        self._best = best_checkpoints(
            plan.train_config,
            None if self._folder is None else self._folder.path,
            "loss" if plan.valid_fn is None else "val_loss",
        )

    def run(self) -> Any:
        progress, model = _Progress(), self._model
        if self._folder is not None:
            self._folder.fetch()
            # Keras 3 makes an optimizer's variables at the first step, and only variables that
            # exist are restored.
            if is_keras_3():
                model.optimizer.build(model.trainable_variables)
            # The record of a former job's stop would end this training at its first step, so the
            # chief removes it in `begin`.
            if self._is_chief:
                self._folder.begin(self._task_config.attempt)
            found = restore(self._folder.path, self._total, **self._saved())
            if found is not None:
                # The values of a checkpoint are `vars` of a `_Progress`, see `_save`.
                vars(progress).update(found[1])
                logger.info(
                    "resumed from %s: %d epochs, %d steps", found[0], progress.epoch, progress.step
                )
        # A checkpoint at a request to stop may be inside an epoch, which a group repeats.
        if not self._is_alone:
            progress.batch = 0
        watch = TrainingWatch(self._task_config, self._folder, self._is_chief, self._total)
        if self._plan.steps is not None:
            watch.total_steps = self._plan.epochs * self._plan.steps
        kind = _EpochCallback if self._by_servers else _StepCallback
        callback = kind(
            progress, watch, functools.partial(self._save, progress), self._plan, self._is_alone
        )
        count_metrics_once(self._model)
        history = tf.keras.callbacks.History()
        history.set_model(self._model)
        valid_fn = self._plan.valid_fn
        if progress.epoch >= self._plan.epochs:
            logger.info(
                "nothing is left to train: the checkpoint has %d of %d epochs",
                progress.epoch,
                self._plan.epochs,
            )
        while progress.epoch < self._plan.epochs and not watch.stop:
            if progress.batch and self._is_epoch_over(progress):
                # The checkpoint is of the last batch of its epoch, so there is nothing left to
                # resume.
                progress.next_epoch()
                continue
            data, last, steps, end = self._next_call(progress)
            callback.end = end
            self._model.fit(
                data,
                initial_epoch=progress.epoch,
                epochs=last,
                steps_per_epoch=steps,
                validation_data=None if valid_fn is None else valid_fn(),
                # The dataset shuffles.
                shuffle=False,
                callbacks=[callback, *([] if end is None else [end]), *self._plan.callbacks],
                # A line per epoch suits logs; the default is a progress bar.
                verbose=2,
            )
            if self._model.stop_training and (end is None or not end.is_over):
                # The stop came from a request or from the model's own callbacks, not from the end
                # of a pass.
                break
        # Keras' own history has the last call alone. The logs of all epochs come from the
        # checkpoints.
        history.history = callback.history()
        history.epoch = list(range(len(next(iter(history.history.values()), []))))
        return history

    def _saved(self) -> dict[str, Any]:
        """Return the content of a checkpoint, and how TensorFlow writes and reads it."""
        # The chief writes all variables. Otherwise each parameter server writes its own part on its
        # own host, where no other process finds it.
        options = tf.train.CheckpointOptions("/job:chief/task:0") if self._by_servers else None
        return {"options": options, "model": self._model, "optimizer": self._model.optimizer}

    def _save(self, progress: _Progress, logs: KerasLogs = None) -> None:
        """Write a checkpoint, which may be a best one by the logs of its epoch."""
        if self._folder is None:
            return
        keep = self._plan.train_config.get("keep_checkpoint_max", 1)
        path = save(self._folder.path, keep, self._is_chief, vars(progress), **self._saved())
        # Workers other than the chief write no checkpoint that could be the best.
        if path is None:
            return
        if self._best is not None and logs is not None:
            # The copy comes before `publish`, so that an address receives both at once.
            self._best.offer(path, logs)
        self._folder.publish()

    def _is_epoch_over(self, progress: _Progress) -> bool:
        """Test for a resumed epoch without a batch that is left to train on."""
        if self._plan.steps is not None:
            return progress.batch >= self._plan.steps
        return next(iter(self._next_call(progress)[0]), None) is None

    def _next_call(self, progress: _Progress) -> tuple[Any, int, int | None, EpochEnd | None]:
        """Return data, last epoch, steps and closing callback of the next call of `model.fit`."""
        (epoch, batch), (epochs, steps) = (progress.epoch, progress.batch), self._plan[2:4]
        if steps is not None:
            data = self._plan.input_fn(seed=self._seed)
            if not self._by_servers:
                # The rows are one endless pass over all epochs, so the number of steps is the
                # position in it. In a group a batch lasts for several steps, see `EpochEnd`.
                per_batch = 1 if self._is_alone else self._task_config.num_workers
                data = data.skip((epoch * steps + batch) // per_batch)
            # The rest of an epoch has fewer steps than the others, so it is a call of its own.
            return (data, epoch + 1, steps - batch, None) if batch else (data, epochs, steps, None)
        # The order of an epoch depends on the seed and its number alone, so a resumed epoch can
        # skip the rows it has seen.
        data = self._plan.input_fn(seed=None if self._seed is None else self._seed + epoch)
        # With a seed each epoch has a dataset of its own, and so a call of its own.
        is_single = self._seed is not None or batch > 0
        end = EpochEnd(
            data.skip(batch) if batch else data, self._task_config, self._total, is_single
        )
        return end.data, epochs, None, end


class _Progress:
    """Progress of the training, a part of each checkpoint.

    It has `batch` steps of epoch `epoch`, and the logs of earlier epochs.
    """

    def __init__(self) -> None:
        # Checkpoints have all attributes of this object, so these have to be JSON values.
        self.epoch = self.batch = self.step = 0
        self.logs: list[dict[str, Any]] = []

    def next_epoch(self) -> None:
        self.epoch, self.batch = self.epoch + 1, 0


class _EpochCallback(tf.keras.callbacks.Callback):  # type: ignore[misc]
    """Counts, reports and saves at the ends of epochs; for parameter servers."""

    # The callback that closes this call of `model.fit`; None with `steps_per_epoch`.
    end: EpochEnd | None = None

    def __init__(
        self,
        progress: _Progress,
        watch: TrainingWatch,
        save: Callable[..., None],
        plan: Plan,
        is_alone: bool,
    ) -> None:
        super().__init__()
        # Otherwise Keras converts the logs for this callback, which reads all metrics from the
        # device after each step.
        self._supports_tf_logs = True
        self._progress, self._watch, self._write, self._plan = progress, watch, save, plan
        # Checkpoints inside an epoch are of use only to a process that can resume there.
        self._every_steps = plan.train_config.get("save_checkpoints_steps") if is_alone else None
        self._every_secs, self._saved_at = plan.every_secs if is_alone else None, time.monotonic()
        # These are the values of an epoch that a request to stop has ended. No checkpoint has them.
        self._unfinished: list[dict[str, Any]] = []

    def on_epoch_end(self, epoch: int, logs: KerasLogs = None) -> None:
        progress, values = self._progress, _values(logs)
        is_whole = (
            progress.batch >= (self._plan.steps or 0) if self.end is None else self.end.is_whole
        )
        if self._watch.stop and not is_whole:
            # The request came inside this epoch. Its values are shown, but it does not count as an
            # epoch.
            self._unfinished = [values]
            return
        self._count_steps()
        progress.next_epoch()
        progress.logs.append(values)
        self._watch.report(progress.step, _numbers(values))
        if (
            self._watch.stop
            or progress.epoch % self._plan.every_epochs == 0
            or progress.epoch >= self._plan.epochs
        ):
            self._save(values)

    def history(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for logs in [*self._progress.logs, *self._unfinished]:
            for name, value in logs.items():
                found.setdefault(name, []).append(value)
        return found

    def _count_steps(self) -> None:
        self._progress.step += self._plan.steps or 0
        self._watch.step_end(self._progress.step, dict)
        # The model's own callbacks may have set this too, so it is never set back.
        self.model.stop_training = self.model.stop_training or self._watch.stop

    def _save(self, logs: KerasLogs = None) -> None:
        self._write(logs)
        # The time that a save takes does not count to the seconds until the next one.
        self._saved_at = time.monotonic()


class _StepCallback(_EpochCallback):
    """Also progress, reports and checkpoints at the end of a step.

    Keras makes no such calls for parameter servers.
    """

    # Steps of this call's epoch that are counted already.
    _seen = 0

    def on_epoch_begin(self, epoch: int, logs: KerasLogs = None) -> None:
        self._seen = 0

    def on_train_batch_end(self, batch: int, logs: KerasLogs = None) -> None:
        progress, watch = self._progress, self._watch
        # With `steps_per_execution`, Keras calls this once for several steps.
        new, before = batch + 1 - self._seen, progress.step
        # In a resumed epoch `batch` counts from 0 again, and `progress.batch` goes on from the
        # checkpoint.
        self._seen += new
        progress.step += new
        progress.batch += new
        watch.step_end(progress.step, lambda: _numbers(_values(logs)))
        if watch.stop:
            self.model.stop_training = True
        # A call of several steps may jump over a multiple of `every_steps`, so quotients are
        # compared, not remainders.
        is_due = (
            self._every_steps and progress.step // self._every_steps > before // self._every_steps
        )
        if (
            watch.stop
            or is_due
            or (self._every_secs and time.monotonic() - self._saved_at >= self._every_secs)
        ):
            self._save()

    def _count_steps(self) -> None:
        # The steps are counted one by one at their ends.
        pass


def _values(logs: KerasLogs) -> dict[str, Any]:
    """Return logs as JSON values, since checkpoints keep them as text."""
    return {name: np.asarray(value).tolist() for name, value in (logs or {}).items()}


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Drop metrics with several values, which reports cannot show."""
    return {name: float(value) for name, value in values.items() if not isinstance(value, list)}
