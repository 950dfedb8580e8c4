"""Training a Keras model from the callbacks of a user's module, alone or in the group of TF_CONFIG.

Methods with a sum over the group (`Group.sum`, `Training.weights`, `_save`, `_export`) have to be
called by all workers in the same order, or all of them hang.
"""

from __future__ import annotations

import logging
import random
import tempfile
import time
from typing import Any, Iterator, Mapping

import numpy as np
import tensorflow as tf

from akdl.keras.callbacks import CheckpointSettings, Training, checkpoint_settings, make_callbacks
from akdl.keras.evaluate import Measured
from akdl.keras.saving import (
    model_to_save,
    require_targets,
    save_model,
    try_export,
    wrong_train_targets,
)
from akdl.keras.task_configs import TRAIN, TrainResult, prepare
from akdl.runner.config import TaskConfig
from akdl.storage.training_folders import CheckpointFolder
from akdl.training.checkpoints import CheckpointError, latest, restore, save, try_folder
from akdl.training.data import DatasetSource, Part, Passes
from akdl.training.loop import (
    Evaluation,
    LossError,
    Objective,
    TrainStep,
    VariableGroups,
    require_finite_weights,
    tf_variables,
)
from akdl.training.model_call import call_on_sample
from akdl.training.objects import (
    Heads,
    learning_rate,
    make_optimizer,
    set_learning_rate,
    unknown_names,
)
from akdl.training.row_metrics import Metrics
from akdl.training.training_watch import Report, TrainingWatch
from akdl.training.user_functions import ObjectError, UserModule
from akdl.training.workers import Group
from akdl.user_code.config_file import Config

logger = logging.getLogger(__name__)

# Seconds between two lines within an epoch.
PROGRESS_S = 10.0


class SaveError(ValueError):
    """A trained model could not be saved; the message says where its checkpoint is, if any."""


def train(
    config: str | Config,
    module: object,
    placeholders: Mapping[str, str] | None = None,
    report: Report | None = None,
    task_config: TaskConfig | None = None,
    folder: CheckpointFolder | None = None,
) -> TrainResult:
    """Train the model of a user's module and save it to the config's `save_path`.

    In a group every worker calls this, before any other use of TensorFlow.

    Args:
        config: A train config, or the path of its JSON file.
        module: The user's module with the callbacks.
        placeholders: Values of `${NAME}$` in the config; other values come from the environment.
        report: Receives a line per epoch, on the chief; None logs it.
        task_config: The argument of an operator's `main`; receives reports with numbers.
        folder: The operator's folder of checkpoints, which may contain a request to stop.

    Returns:
        The trained model, its metrics by epoch, and the folder of the SavedModel.

    Raises:
        akdl.user_code.config_file.ConfigError: The config is wrong; lists all mistakes.
        ValueError: Results of the callbacks do not fit together, or the loss became NaN.
        SaveError: The trained model could not be saved; a checkpoint contains it, except in an
            operator without `checkpointDir`.
    """
    user = UserModule(module)
    checked = prepare(TRAIN, config, placeholders, user, unknown_names)
    return _KerasTraining(checked, user, report or logger.info, task_config, folder).run()


class _KerasTraining:
    """One training: it is set up and checked in `__init__`, and `run` is called once.

    The order of `__init__` is the point of the class: the group before any variable, mistakes that
    would show after hours before the first step, and all sums in the same order on all workers.
    """

    def __init__(
        self,
        config: Config,
        user: UserModule,
        report: Report,
        task_config: TaskConfig | None,
        folder: CheckpointFolder | None,
    ) -> None:
        self._config, self._user = config, user
        self._settings = checkpoint_settings(config.get("callbacks", []))
        self._callbacks = make_callbacks(config.get("callbacks", []), user.module)
        # The group comes before the datasets and the model, because a strategy for several workers
        # has to exist before the first variable. The callbacks come before it, so that a mistake in
        # them is an error before a server of the group starts.
        self._group = group = Group(devices=config.get("devices"))
        self._report = report if group.is_chief else (lambda line: None)
        self._folder, self._is_operator = folder, task_config is not None
        self._watch = TrainingWatch(task_config, folder, group.is_chief, group.sum)
        if folder is not None:
            folder.fetch()
            if group.is_chief and task_config is not None:
                folder.begin(task_config.attempt)
        require_targets(
            TRAIN,
            group,
            wrong_train_targets(config, self._settings, self._callbacks) if group.is_chief else [],
        )
        self._seed = config.get("seed")
        if self._seed is None and group.ranks > 1:
            # All workers read the same rows and take parts of them, so they have to shuffle in the
            # same order. The sum passes on the chief's number.
            self._seed = int(group.sum(random.randrange(1 << 31) if group.is_chief else 0))
        if self._seed is not None:
            set_seed(self._seed)
        own = "train" in config.get("worker_datasets", [])
        source = DatasetSource(user, "awf_create_train_dataset_fn", config, group, own, exact=True)
        self._passes = Passes(source, self._seed, repeats="steps_per_epoch" in config)
        sample = self._passes.sample
        self._validation = Measured(
            user,
            "awf_create_val_dataset_fn",
            config,
            group,
            "val" in config.get("worker_datasets", []),
        )
        # The seed is set again, because the datasets may have drawn random numbers, and the weights
        # are to depend on the seed alone.
        if self._seed is not None:
            set_seed(self._seed)
        with group.strategy.scope():
            model = user.create("awf_create_model_fn", config)
            if not isinstance(model, tf.keras.Model):
                raise ObjectError(
                    f"awf_create_model_fn in {user.file}: expected a tf.keras.Model, got"
                    f" {type(model).__name__}"
                )
            # `model.compile` would scale the loss of such a model, as float16 has no small
            # gradients. Models of older versions of Keras have no policy.
            if getattr(getattr(model, "dtype_policy", None), "name", "") == "mixed_float16":
                raise ObjectError(
                    f"awf_create_model_fn in {user.file}: the Keras runner does not scale losses,"
                    " which a model with the policy mixed_float16 needs: set the policy"
                    " mixed_bfloat16, or train in a script with model.fit"
                )
        outputs = call_on_sample(group, model, sample, source.where())
        with group.strategy.scope():
            given = config["optimizer"]
            specs = given if isinstance(given, list) else [given]
            optimizers = [make_optimizer(spec, user.module) for spec in specs]
            variables = VariableGroups(
                model, optimizers, user.function("awf_group_trainable_vars_fn")
            )
        self._heads = Heads(model, outputs)
        self._objective = Objective(config, user.module, self._heads)
        self._metrics = Metrics(config, user.module, self._heads, sample.label, outputs)
        Evaluation(group, model, self._metrics, self._objective).try_on(
            sample, outputs, source.where()
        )
        self._variable_groups = variables
        self._step = TrainStep(group, model, variables, self._objective, self._metrics)
        heads = self._heads.names if self._heads.several else ()
        self._training = Training(
            group, model, optimizers, user.module, config.get("epochs", 1), heads=heads
        )
        self._history: list[dict[str, float]] = []
        self._rows = 0.0
        # Mistakes that would otherwise appear after an epoch, or after the last step, are errors
        # now.
        self._validation.prepare(model, self._heads, self._objective)
        # Their memory is free during the training.
        self._validation.samples.clear()
        self._features = sample.features
        if "save_path" in config:
            try_export(model_to_save(user, model), sample.features, model)
        if "val_data_args" in config and not user.has("awf_create_val_dataset_fn"):
            self._report(
                f"no validation: {user.file} does not define awf_create_val_dataset_fn, so"
                " val_data_args is ignored"
            )

    def run(self) -> TrainResult:
        training, settings = self._training, self._settings
        # This comes before `begin` of the callbacks, which rely on their restored state.
        if settings is not None and settings.resume:
            self._resume(settings)
        for callback in self._callbacks:
            callback.begin(training)
        try:
            batches = self._passes.steps()
            while (
                len(self._history) < training.epochs and not training.stop and not self._watch.stop
            ):
                self._epoch(batches)
                is_last = training.stop or self._watch.stop or len(self._history) == training.epochs
                if settings is not None and (
                    is_last or len(self._history) % settings.every_epochs == 0
                ):
                    self._save(settings)
            self._average()
        finally:
            for callback in self._callbacks:
                callback.end(training)
        return TrainResult(training.model, self._history, training.steps, self._export())

    def _average(self) -> None:
        """Replace weights with their averages, as Keras does at the end of a training.

        This comes after the last checkpoint, from which a longer training continues, and before
        callbacks that restore weights.
        """
        variables = self._variable_groups
        with self._group.strategy.scope():
            for optimizer, group in zip(variables.optimizers, variables.groups):
                if getattr(optimizer, "use_ema", False):
                    optimizer.finalize_variable_values(
                        [variables.variables[number] for number in group]
                    )

    def _epoch(self, batches: Iterator[list[Part]]) -> None:
        training, passes, epoch = self._training, self._passes, len(self._history)
        steps_per_epoch = self._config.get("steps_per_epoch")
        self._watch.total_steps = training.epochs * steps_per_epoch if steps_per_epoch else None
        if not passes.steps_in_epoch:
            for callback in self._callbacks:
                callback.epoch_begin(training, epoch)
        start, steps_before = time.monotonic(), training.steps
        # Lines within an epoch are counted from its start, so a short epoch has only its last line.
        shown = start
        while steps_per_epoch is None or passes.steps_in_epoch < steps_per_epoch:
            parts = next(batches)
            if self._seed is not None and training.steps == steps_before:
                # Random numbers in the model depend on seed and epoch alone, so that a resumed
                # training draws the same ones. `batches` sets the seed too, for a pass over the
                # rows.
                tf.random.set_seed(self._seed + epoch)
                if self._step.has_random_state:
                    self._step.renew()
            stepped = self._step(parts)
            if not stepped.rows:
                # With `steps_per_epoch` the passes repeat, so a step without rows means that no
                # worker has any.
                if steps_per_epoch is not None:
                    raise ObjectError(
                        "there are no rows to train on: the training dataset is empty"
                    )
                break
            training.steps += 1
            passes.steps_in_epoch += 1
            self._rows += stepped.rows
            for callback in self._callbacks:
                callback.step_end(training, stepped.loss)
            self._watch.step_end(training.steps, lambda loss=stepped.loss: {"loss": loss})  # type: ignore[misc]
            settings = self._settings
            if (
                settings is not None
                and settings.every_steps
                and training.steps % settings.every_steps == 0
            ):
                # A checkpoint of NaN would replace a good one.
                self._require_finite_loss()
                self._save(settings)
            if time.monotonic() - shown > PROGRESS_S:
                shown = time.monotonic()
                self._require_finite_loss()
                mean = float(self._step.losses.numpy()) / self._rows
                self._report(
                    f"epoch {epoch + 1}/{training.epochs}  step {passes.steps_in_epoch}  loss"
                    f" {mean:.5g}"
                )
            if self._watch.stop:
                self._require_finite_loss()
                # With the callback `checkpoint`, `run` writes a checkpoint inside the epoch. The
                # run that resumes from it makes the other steps and the metrics.
                self._report(f"stopped on request after step {training.steps}")
                return
        if not passes.steps_in_epoch:
            raise ObjectError(
                "there are no rows to train on: the training dataset is empty, or smaller than a"
                " batch that it drops"
            )
        self._require_finite_loss()
        seconds = time.monotonic() - start
        logs = {
            "loss": float(self._step.losses.numpy()) / self._rows,
            **self._metrics.result(self._group),
        }
        # The sums are of one epoch. They are kept until here, because a checkpoint inside it
        # contains them.
        self._step.losses.assign(0.0)
        self._rows = 0.0
        logs.update(self._validation.run("val_"))
        passes.steps_in_epoch = 0
        if steps_per_epoch is None:
            passes.next_pass()
        self._history.append(logs)
        for callback in self._callbacks:
            callback.epoch_end(training, epoch, logs)
        self._watch.report(training.steps, logs)
        self._report_epoch(logs, (training.steps - steps_before) / max(seconds, 1e-9))

    def _require_finite_loss(self) -> None:
        self._step.require_finite_loss(self._training.steps, len(self._history) + 1)

    def _report_epoch(self, logs: Mapping[str, float], steps_per_s: float) -> None:
        training = self._training
        values = "  ".join(f"{name} {value:.5g}" for name, value in logs.items())
        self._report(
            f"epoch {len(self._history)}/{training.epochs}  {values}  ({steps_per_s:.4g} steps/s)"
        )
        if training.stop and len(self._history) < training.epochs:
            self._report(f"stopped early after epoch {len(self._history)}; {self._stopped_by()}")

    def _stopped_by(self) -> str:
        return next(
            (callback.stopped for callback in self._callbacks if callback.stopped),
            "a callback set stop",
        )

    def _save(self, settings: CheckpointSettings) -> None:
        """Write a checkpoint on the chief.

        All workers take part, as some variables are sums over workers.
        """
        group, training, passes = self._group, self._training, self._passes
        # Each worker fills its own row, and the sum has all rows.
        places = np.zeros([group.ranks, 2])
        places[group.rank] = passes.number, passes.steps_in_pass
        values = {
            "history": self._history,
            "steps": training.steps,
            "steps_in_epoch": passes.steps_in_epoch,
            "places": group.sum(places).astype(int).tolist(),
            # Inside an epoch each worker has the metrics of its own rows so far.
            "metrics": group.sum(self._metrics.state()),
            "loss": [float(self._step.losses.numpy()), self._rows],
            "seed": self._seed,
            "rates": [learning_rate(optimizer) for optimizer in training.optimizers],
            "kinds": self._kinds(),
            "callbacks": [callback.state() for callback in self._callbacks],
        }
        with group.strategy.scope():
            save(settings.path, settings.keep, group.is_chief, values, **self._variables())
        if group.is_chief and self._folder is not None:
            self._folder.publish()
        # All workers wait here, so that the file exists when they go on.
        group.sum(0)

    def _kinds(self) -> list[str]:
        return [type(callback).__name__ for callback in self._callbacks]

    def _resume(self, settings: CheckpointSettings) -> None:
        group, training, passes = self._group, self._training, self._passes
        with group.strategy.scope():
            found = restore(settings.path, group.sum, **self._variables())
        if found is None:
            return
        path, values = found
        # The states of callbacks are restored in their order, so another list of callbacks would
        # get the wrong ones.
        if values["kinds"] != self._kinds():
            raise CheckpointError(
                f"{path} belongs to a training with other callbacks: use the same callbacks, or"
                " choose another checkpoint path"
            )
        self._history = values["history"]
        training.steps = values["steps"]
        # The checkpoint's seed gives the order in which its steps have read the rows, so that the
        # same rows are skipped.
        if self._config.get("seed") is None:
            self._seed = passes.seed = values["seed"]
        places = values["places"]
        # Another number of workers has other shares. The same number of steps skips the same rows
        # if the order of rows is fixed.
        passes.number, passes.steps_in_pass = (
            places[group.rank] if len(places) == group.ranks else max(places)
        )
        passes.steps_in_epoch = values["steps_in_epoch"]
        with group.strategy.scope():
            for optimizer, rate in zip(training.optimizers, values["rates"]):
                # An optimizer with a schedule computes its rate from its steps, which are among its
                # variables.
                if rate is not None:
                    set_learning_rate(optimizer, rate)
        loss, self._rows = values["loss"]
        self._step.losses.assign(loss)
        # At the end of an epoch they are reset, and the next one may have other metrics.
        if passes.steps_in_epoch:
            # The checkpoint has the sum over all workers. If each of them took it, it would be
            # counted several times.
            state = np.array(values["metrics"])
            self._metrics.set_state(state if group.is_chief else np.zeros_like(state))
        for callback, state in zip(self._callbacks, values["callbacks"]):
            callback.restore(state)
        training.stop = any(callback.stopped for callback in self._callbacks)
        self._report(f"resumed from {path}: {len(self._history)} epochs, {training.steps} steps")
        if training.stop and len(self._history) < training.epochs:
            self._report(
                f"epochs {len(self._history) + 1} to {training.epochs} are not trained: an earlier"
                f" run stopped after epoch {len(self._history)} ({self._stopped_by()}); raise its"
                " patience to continue, or use another checkpoint path"
            )

    def _variables(self) -> dict[str, list[Any]]:
        """Return the variables of model and optimizers, which a checkpoint has in this order.

        Lists of them, and not the objects, because Keras 3 hides the states of random generators
        from TensorFlow.
        """
        found = {"model": self._training.model.variables}
        for number, optimizer in enumerate(self._training.optimizers):
            # This is a method in older versions of Keras.
            own = optimizer.variables
            found[f"optimizer{number}"] = (
                own() if callable(own) and not isinstance(own, list) else own
            )
        return {name: tf_variables(own) for name, own in found.items()}

    def _export(self) -> str | None:
        path = self._config.get("save_path")
        if path is None:
            return None
        problem, saved = None, None
        try:
            model = model_to_save(self._user, self._training.model)
            require_finite_weights(model)
            # The sample has the features of the trained model. A model of `awf_model_to_save_fn`
            # may take other ones.
            saved = save_model(
                model, path, self._group, self._features if model is self._training.model else None
            )
        # All workers have the same weights, so all of them raise this, and no worker waits in the
        # sum below.
        except LossError:
            raise
        except Exception as error:
            problem = error
        # All workers wait for the model here, and all of them fail together. Otherwise a chief with
        # a full disk would fail, and the others would end well.
        if self._group.sum(0 if problem is None else 1):
            raise SaveError(self._keep(path, problem)) from problem
        if saved is not None:
            self._report(f"saved to {saved}")
        return saved

    def _keep(self, path: str, problem: Exception | None) -> str:
        """Return the error's text for a model that could not be saved, after making sure that a
        checkpoint contains it, if there is a place that outlasts this process.
        """
        settings = self._settings
        reason = (
            "another worker failed" if problem is None else f"{type(problem).__name__}: {problem}"
        )
        failed = f"the model is trained, but could not be saved to {path}: {reason}."
        if self._folder is not None:
            return (
                f"{failed} Its checkpoint is in {self._folder.address}: to save it without training"
                " again, run the job again with this checkpointDir"
            )
        # With settings, the checkpoint of the last epoch contains the model already.
        if settings is None:
            # The work folder of an operator's process is removed, with all temporary files.
            if self._is_operator:
                return (
                    f"{failed} It is lost, because this operator has no checkpointDir: set one, so"
                    " that another run does not train again"
                )
            folder = f"{path}.kept"
            if self._group.is_chief and try_folder(folder) is not None:
                folder = tempfile.mkdtemp(prefix="akdl-kept-")
            settings = CheckpointSettings(folder)
            self._save(settings)
        return (
            f"{failed} Its checkpoint is {latest(settings.path)}: to save it without training"
            f" again, run again with the checkpoint callback and the path {settings.path}"
        )


def set_seed(number: int) -> None:
    random.seed(number)
    # NumPy takes seeds below 2^32 only.
    np.random.seed(number % (1 << 32))
    if hasattr(tf.keras.utils, "set_random_seed"):
        tf.keras.utils.set_random_seed(number % (1 << 32))
    else:
        tf.random.set_seed(number)
