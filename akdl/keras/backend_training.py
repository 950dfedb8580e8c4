"""Training with Keras 3 on PyTorch or JAX, from the same functions and the same config.

The runner's own loop is made of TensorFlow's strategies, datasets and tensors. On another backend
Keras has a loop of its own: this module calls `fit` for each epoch and imports no TensorFlow. So a
training has one process and one optimizer, the callbacks are Keras' own, and their states are not
in checkpoints.
"""

from __future__ import annotations

import collections
import glob
import inspect
import itertools
import json
import logging
import math
import os
import warnings
from typing import Any, Iterator, Mapping

from akdl.keras.task_configs import TRAIN, TrainResult, is_checkpoint, prepare
from akdl.process.ranks import read_cluster
from akdl.runner.config import TaskConfig
from akdl.storage.local_files import WholeFile
from akdl.storage.training_folders import CheckpointFolder
from akdl.training.averages import averaged_later
from akdl.training.training_watch import Report, TrainingWatch
from akdl.training.user_functions import UserModule, make_with, name_and_args, plain_name
from akdl.user_code.config_file import Config

MODEL_FILE = "model.keras"

_WEIGHTS = ".weights.h5"
_HISTORY = "history.json"
_TRAINING, _VALIDATION = "awf_create_train_dataset_fn", "awf_create_val_dataset_fn"

Logs = Mapping[str, float]

logger = logging.getLogger(__name__)


class BackendError(ValueError):
    """The config asks for what the runner does with TensorFlow alone."""


def train(
    config: str | Config,
    module: object,
    placeholders: Mapping[str, str] | None = None,
    report: Report | None = None,
    task_config: TaskConfig | None = None,
    folder: CheckpointFolder | None = None,
) -> TrainResult:
    """Train the model of a user's module, and save it as a file in the folder `save_path`.

    `keras_training.train` explains the arguments. A dataset is an iterable of batches, each
    (features, label) or (features, label, weight), and its function is called for each epoch. It
    may take `context`, whose `arrays` has the rows of the operator.

    Raises:
        akdl.user_code.config_file.ConfigError: The config is wrong; lists all mistakes.
        ValueError: Keras refuses a name or an argument, or the config needs TensorFlow.
    """
    import keras

    user, say = UserModule(module), report or logger.info
    config = prepare(TRAIN, config, placeholders, user, injected=("batch_size", "context"))
    given = config["optimizer"]
    optimizer, *others = given if isinstance(given, list) else [given]
    if others or sum(map(len, read_cluster(os.environ).values())) > 1:
        raise BackendError(
            f"with its backend {keras.backend.backend()} Keras trains in one process, with one"
            " optimizer: set numWorkers=1 and numPSs=0, or envVars=['KERAS_BACKEND=tensorflow']"
        )
    if "devices" in config:
        raise BackendError(
            f"devices: the backend {keras.backend.backend()} chooses the device: remove the key;"
            " the variable CUDA_VISIBLE_DEVICES, and gpusPerWorker of an operator, hide GPUs"
        )
    if "val_data_args" in config and not user.has(_VALIDATION):
        say(
            f"no validation: {user.file} does not define {_VALIDATION}, so val_data_args is ignored"
        )
    epochs, steps, seed = config.get("epochs", 1), config.get("steps_per_epoch"), config.get("seed")
    if seed is not None:
        keras.utils.set_random_seed(seed)
    model = user.create("awf_create_model_fn", config)
    model.compile(
        _made(optimizer, keras.optimizers, module),
        _made(config["loss"], keras.losses, module),
        loss_weights=config.get("loss_weights"),
        metrics=_made(config.get("metrics"), keras.metrics, module),
        weighted_metrics=_made(config.get("weighted_metrics"), keras.metrics, module),
    )
    average = averaged_later(model)
    watch, checkpoints, callbacks = TrainingWatch(task_config, folder), _Checkpoints(None), []
    for spec in config.get("callbacks", []):
        name, args = name_and_args(spec)
        if is_checkpoint(spec):
            checkpoints = make_with("callback checkpoint", _Checkpoints, args)
        else:
            callbacks.append(_made(spec, keras.callbacks, module))
            if isinstance(callbacks[-1], str):
                raise BackendError(f"callbacks: neither {user.file} nor Keras has {name!r}")

    params = {"epochs": epochs, "steps": steps, "verbose": 0}
    events = keras.callbacks.CallbackList(callbacks, model=model, **params)

    def step_end(batch: int, logs: Logs | None = None) -> None:
        events.on_train_batch_end(batch, logs)
        # With JAX, the variables of an optimizer cannot be read during `fit`.
        watch.step_end(next(made_steps), lambda: logs or {})

    # Each epoch is a call of `fit`, which begins and ends its callbacks: early stopping would
    # forget the epochs before.
    of_epoch = keras.callbacks.LambdaCallback(
        on_epoch_begin=events.on_epoch_begin,
        on_epoch_end=events.on_epoch_end,
        on_train_batch_begin=events.on_train_batch_begin,
        on_train_batch_end=step_end,
    )

    def batches(name: str) -> Iterator[object]:
        context, is_empty = getattr(task_config, "context", None), True
        for batch in user.create(name, config, batch_size=config["batch_size"], context=context):
            is_empty = False
            yield batch
        if is_empty:
            raise BackendError(
                f"there are no rows: {name} in {user.file} returned an empty dataset"
            )

    def repeated() -> Iterator[object]:
        while True:
            yield from batches(_TRAINING)

    if folder is not None:
        folder.fetch()
        folder.begin(0 if task_config is None else task_config.attempt)
    history = checkpoints.restore(model, batches(_TRAINING))
    resumed, rows = len(history), repeated()
    events.on_train_begin()
    made_steps = itertools.count(int(model.optimizer.iterations) + 1)
    # Keras says so of each generator, although it is the end of the epoch.
    warnings.filterwarnings("ignore", "Your input ran out of data")
    for epoch in range(epochs):
        if seed is not None:
            # The random numbers of an epoch depend on the seed and its number alone, so that a
            # training that resumes draws the same ones.
            keras.utils.set_random_seed(seed + epoch)
        # With `steps_per_epoch`, an epoch begins where the last one has ended. Keras reads ahead,
        # so each epoch has a generator of its own.
        taken = batches(_TRAINING) if steps is None else _first(rows, steps)
        if epoch < resumed:
            if steps is not None:
                collections.deque(taken, maxlen=0)
            continue
        validation = batches(_VALIDATION) if user.has(_VALIDATION) else None
        fitted = model.fit(
            taken,
            epochs=epoch + 1,
            initial_epoch=epoch,
            steps_per_epoch=steps,
            validation_data=validation,
            callbacks=[of_epoch],
            shuffle=False,
            verbose=0,
        )
        logs = {name: float(values[-1]) for name, values in fitted.history.items()}
        if not math.isfinite(logs["loss"]):
            raise BackendError(
                f"the loss is {logs['loss']} in epoch {epoch + 1}: no model is saved"
            )
        history.append(logs)
        shown = "  ".join(f"{name} {value:.5g}" for name, value in logs.items())
        say(f"epoch {epoch + 1}/{epochs}  {shown}")
        watch.report(int(model.optimizer.iterations), logs)
        # A checkpoint is of a whole epoch, so a request to stop waits for the end of this one.
        is_last = watch.stop or model.stop_training or epoch + 1 == epochs
        if checkpoints.save(model, history, is_last) and folder is not None:
            folder.publish()
        if is_last:
            break
    average()
    events.on_train_end()
    saved = config.get("save_path")
    if saved is not None:
        os.makedirs(saved, exist_ok=True)
        to_save = user.function("awf_model_to_save_fn") or (lambda trained: trained)
        to_save(model).save(os.path.join(saved, MODEL_FILE))
    return TrainResult(model, history, int(model.optimizer.iterations), saved)


class _Checkpoints:
    """Weights of model and optimizer after epochs, in files with the number of the epoch.

    The metrics of the epochs are in a file next to them. A process may be killed between two files,
    so the last checkpoint is the newest one of which there are both.
    """

    def __init__(
        self,
        path: str | None,
        every_epochs: int = 1,
        keep: int = 3,
        resume: bool = True,
        every_steps: int | None = None,
    ) -> None:
        self._path, self._every, self._keep, self._resume = path, every_epochs, keep, resume
        if every_steps is not None:
            raise BackendError("callbacks: every_steps of checkpoint needs the backend tensorflow")
        if min(every_epochs, keep) < 1:
            raise BackendError("callbacks: every_epochs and keep of checkpoint: expected 1 or more")

    def restore(self, model: Any, batches: Iterator[object]) -> list[dict[str, float]]:
        """Restore the last checkpoint, and return the metrics of its epochs.

        A model that makes its variables with its first batch makes them with one of `batches`.
        """
        found = {int(os.path.basename(path)[: -len(_WEIGHTS)]): path for path in self._found()}
        if not found:
            return []
        if not self._resume:
            raise BackendError(
                f"callbacks: {self._path} has checkpoints already, and resume is false"
            )
        history: list[dict[str, float]] = []
        # An address receives the weights of the first epoch before the metrics.
        if os.path.exists(self._place(_HISTORY)):
            with open(self._place(_HISTORY), encoding="utf-8") as file:
                history = json.load(file)
        last = max((epoch for epoch in found if epoch <= len(history)), default=0)
        if last:
            if not model.built:
                model.evaluate(_first(batches, 1), verbose=0)
            model.optimizer.build(model.trainable_variables)
            model.load_weights(found[last])
        return history[:last]

    def save(self, model: Any, history: list[dict[str, float]], is_last: bool) -> bool:
        """Write a checkpoint where one is due, and return whether it was."""
        if self._path is None or not (is_last or len(history) % self._every == 0):
            return False
        os.makedirs(self._path, exist_ok=True)
        with WholeFile(self._place(_HISTORY)) as file:
            file.write(json.dumps(history).encode("utf-8"))
        # Keras looks at the ending of the name.
        unfinished = self._place(f".unfinished{_WEIGHTS}")
        model.save_weights(unfinished)
        os.replace(unfinished, self._place(f"{len(history):08}{_WEIGHTS}"))
        for old in self._found()[: -self._keep]:
            os.remove(old)
        return True

    def _found(self) -> list[str]:
        if self._path is None:
            return []
        return sorted(glob.glob(os.path.join(glob.escape(self._path), f"[0-9]*{_WEIGHTS}")))

    def _place(self, name: str) -> str:
        return os.path.join(self._path or "", name)


def _first(batches: Iterator[object], count: int) -> Iterator[object]:
    """Yield `count` batches as a generator, since Keras takes no other iterators."""
    yield from itertools.islice(batches, count)


def _made(spec: Any, place: Any, user: object) -> Any:
    """Make the argument of `compile` for a spec, or for specs by output or in a list."""
    if isinstance(spec, list):
        return [_made(one, place, user) for one in spec]
    if spec is None or (isinstance(spec, Mapping) and "name" not in spec):
        return spec and {key: _made(one, place, user) for key, one in spec.items()}
    name, args = name_and_args(spec)
    rate = args.get("learning_rate")
    if isinstance(rate, Mapping):
        args["learning_rate"] = _made(rate, place.schedules, user)
    known = {plain_name(key): one for key, one in vars(place).items() if inspect.isclass(one)}
    # Keras chooses the class of this name by shapes.
    known.pop("accuracy", None)
    found = getattr(user, name, known.get(plain_name(name), name))
    if inspect.isclass(found):
        return make_with(name, found, args)
    if not args:
        # A function, or a short name of Keras, such as mse.
        return found
    if not callable(found):
        raise BackendError(
            f"{name}: expected a class of {place.__name__}, or a class or function of your module,"
            f" since it has the arguments {', '.join(args)}"
        )
    # Reports show a metric by the name of its function.
    title = args.pop("name", name)

    def with_arguments(*values: object) -> object:
        return found(*values, **args)

    with_arguments.__name__ = title
    return with_arguments
