"""Training with four functions as main script of an operator, or from a main script.

    from akdl.estimator import functions_script

    def main(task_config):
        functions_script.main(task_config, "my_functions.py")

User parameters override the user file `parameters.json`, or the one that the parameter `parameters`
names. `path` replaces the file with this worker's rows, and `model_dir` the folder of checkpoints
in the work folder; `checkpointDir` replaces both.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from akdl.estimator.parameters import PARAMETERS_FILE, with_defaults
from akdl.runner.user_params import plain
from akdl.storage.model_archive import write_model
from akdl.tf_version import require_estimator
from akdl.user_code.config_file import read_config
from akdl.user_code.module import load_module

_OWN_PARAMS = ("parameters", "path", "model_dir", "runner")


def main(task_config: Any, module: ModuleType | str) -> None:
    """Train on the rows of this worker.

    The chief exports to `saved_model_dir`, or else writes the model as rows.

    Args:
        task_config: The argument of the operator's `main`.
        module: The module with the functions, or the name of its file among the user files.
    """
    require_estimator("akdl.estimator")
    # This import loads TensorFlow, so a version without Estimators is refused before it.
    from akdl.estimator.estimator_training import train

    given = plain(task_config.user_params)
    # Parameters of the runner itself are not arguments of the user's functions.
    overrides = {key: value for key, value in given.items() if key not in _OWN_PARAMS}
    name = task_config.user_params.get("parameters")
    path = os.path.join(task_config.work_dir, name or PARAMETERS_FILE)
    params = {**(read_config(path) if name or os.path.isfile(path) else {}), **overrides}
    # This reports mistakes before the task waits for all rows.
    with_defaults(params)
    if isinstance(module, str):
        module = load_module(os.path.join(task_config.work_dir, module))
    # Data at a path of the user's are the same for all workers, so a strategy may shard them.
    own_rows = "path" not in given
    folder = getattr(task_config, "saved_model_dir", None)
    result = train(
        module,
        _rows(task_config) if own_rows else given["path"],
        params,
        given.get("model_dir") or os.path.join(task_config.work_dir, "model_dir"),
        folder or os.path.join(task_config.work_dir, "saved_model_dir"),
        own_rows=own_rows,
        task_config=task_config,
    )
    # An operator whose result is a table has no folder for the model, so it is written as rows.
    if folder is None and result is not None:
        write_model(result.exported, task_config.output_writer)


def _rows(task_config: Any) -> str:
    """Return the file with this worker's rows; waits until all of them have arrived.

    A parameter server receives no rows, and its input functions are never called.
    """
    if task_config.task_type == "ps":
        return ""
    if task_config.dataset_length == 0:
        raise ValueError(
            f"{task_config.task_type} {task_config.task_index} got no rows to train on: feed more"
            " rows or set fewer workers"
        )
    return str(task_config.dataset_file)
