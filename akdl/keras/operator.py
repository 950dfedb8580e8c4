"""The Keras runner as main script of an operator.

    from akdl.keras import operator

    def main(task_config):
        operator.main(task_config, "my_callbacks.py")

User parameters: `config`, the task config, as an object, as JSON text, or as the name of a user
file; `task`, "train" (default), "evaluate" or "predict". All other user parameters are values of
placeholders. `${DATASET_FILE}$` is the TFRecord file with this worker's rows.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any, Callable, Mapping, Sequence

from akdl.keras.task_configs import (
    PREDICT,
    TASKS,
    TRAIN,
    TrainResult,
    is_checkpoint,
    placeholders_in,
)
from akdl.process.preflight import installed
from akdl.runner.user_params import plain
from akdl.storage.model_archive import write_model
from akdl.storage.training_folders import CheckpointFolder
from akdl.tf_version import choose_keras_backend
from akdl.user_code.config_file import Config, ConfigError, parse_config, read_config
from akdl.user_code.module import load_module

DATASET_FILE = "DATASET_FILE"

_OWN_PARAMS = ("config", "task")


def main(task_config: Any, module: ModuleType | str, config: str | Config | None = None) -> None:
    """Run the task of the user parameters.

    Without a `saved_model_dir`, "train" writes the model as rows.

    A dataset from `${DATASET_FILE}$` has the rows of one worker; other datasets have to be the same
    on all workers.

    Args:
        task_config: The argument of the operator's `main`.
        module: The module with the callbacks, or the name of its file among the user files.
        config: The task config, instead of the user parameter.
    """
    if isinstance(module, str):
        module = load_module(os.path.join(task_config.work_dir, module))
    params = plain(task_config.user_params)
    task = params.get("task", TRAIN)
    if task not in TASKS:
        raise ConfigError("operator's", [f"task: expected one of {', '.join(TASKS)}, got {task!r}"])
    backend_of(task)
    filled = _config(task_config, params.get("config") if config is None else config)
    own_rows = DATASET_FILE in placeholders_in(filled)
    placeholders = {key: str(value) for key, value in params.items() if key not in _OWN_PARAMS}
    # This waits for the last row, so it happens only for a config that uses the file.
    if own_rows:
        placeholders[DATASET_FILE] = task_config.dataset_file
    # The modules of the tasks import TensorFlow, so they are imported after the checks above, which
    # need no TensorFlow.
    if task == TRAIN:
        _train(task_config, filled, module, placeholders)
    elif task == PREDICT:
        from akdl.keras.predict import predict_batches

        for columns in predict_batches(filled, module, placeholders, worker_datasets=own_rows):
            task_config.output_writer.write_batch(columns)
    else:
        from akdl.keras.evaluate import MODEL, evaluate

        rows = evaluate(filled, module, placeholders, worker_datasets=own_rows)
        # All workers have the same results, and the table gets them once.
        if task_config.task_type == "chief":
            cells = [
                (row[MODEL], metric, value)
                for row in rows
                for metric, value in row.items()
                if metric != MODEL
            ]
            task_config.output_writer.write_batch(
                dict(zip(("model", "metric", "value"), map(list, zip(*cells))))
            )


def _train(
    task_config: Any, config: dict[str, Any], module: ModuleType, placeholders: Mapping[str, str]
) -> None:
    """Train, and write the model to `saved_model_dir` or as rows.

    The operator decides where the model goes, so `save_path` of the config is replaced. Rows of
    this worker's own file are not shared with other workers, and all other datasets are.
    """
    folder = getattr(task_config, "saved_model_dir", None)
    as_rows = folder is None
    config["save_path"] = folder or os.path.join(task_config.work_dir, "saved_model_dir")
    own = [
        name
        for name in ("train", "val")
        if DATASET_FILE in placeholders_in(config.get(f"{name}_data_args"))
    ]
    config.setdefault("worker_datasets", own)
    checkpoints = None
    if task_config.checkpoint_dir is not None:
        checkpoints = CheckpointFolder(task_config.checkpoint_dir, task_config.work_dir)
        config["callbacks"] = _with_checkpoints(config.get("callbacks", []), checkpoints.path)
    train, is_file = trainer()
    result = train(config, module, placeholders, task_config=task_config, folder=checkpoints)
    if as_rows and result.saved is not None:
        write_model(result.saved, task_config.output_writer, as_is=is_file)


def trainer() -> tuple[Callable[..., TrainResult], bool]:
    """Return the function that trains with the backend of this process's Keras, and whether it
    saves a file of Keras.
    """
    if backend_of(TRAIN):
        from akdl.keras import backend_training

        return backend_training.train, True
    from akdl.keras import keras_training

    return keras_training.train, False


def backend_of(task: str) -> str:
    """Return the backend of this process's Keras if that is not TensorFlow, else "".

    A task that only TensorFlow can do is refused here, before its config and its module are read,
    because its own module would fail with an import of TensorFlow.
    """
    backend = choose_keras_backend(installed("keras"), os.environ)
    if backend and task != TRAIN:
        raise ConfigError(
            task,
            [
                f"with its backend {backend} Keras only trains: for metrics give the training"
                " awf_create_val_dataset_fn, predict with PredictBatchOp or LocalPredictor and the"
                " file model.keras, or set KERAS_BACKEND=tensorflow"
            ],
        )
    return backend


def _with_checkpoints(callbacks: Sequence[object], path: str) -> list[Any]:
    """Return the callbacks with one `checkpoint`, in the folder of `checkpointDir`.

    The operator decides where checkpoints go, as it does for the model, because requests to stop
    and the copies in an object store belong to its folder. Other arguments of the config are kept.
    Without the callback it is added, because the operator's parameter asks for checkpoints.
    """
    given = [
        spec.get("args") or {}
        for spec in callbacks
        if is_checkpoint(spec) and isinstance(spec, Mapping)
    ]
    return [
        *(spec for spec in callbacks if not is_checkpoint(spec)),
        *({"name": "checkpoint", "args": {**args, "path": path}} for args in given or [{}]),
    ]


def _config(task_config: Any, given: str | Config | None) -> dict[str, Any]:
    """Return the config of a user parameter: an object, JSON text, or the name of a user file."""
    if given is None:
        raise ConfigError("operator's", ["config: missing; set it in userParams"])
    if isinstance(given, Mapping):
        return dict(given)
    if given.lstrip().startswith("{"):
        return parse_config("operator's", given, "config: ")
    return read_config(os.path.join(task_config.work_dir, given))
