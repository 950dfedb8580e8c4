"""The commands of the runners, `akdl keras` and `akdl estimator`, which train without Flink.

Both end alike, because people and scripts read their exit codes and last lines. Nothing here loads
TensorFlow before the arguments and the config are read, which takes seconds, so that a wrong
argument is an error at once.
"""

from __future__ import annotations

import argparse
import functools
import logging
import os
import re
import sys
import traceback
from typing import Any, Callable, Iterator, Mapping, Sequence

from akdl.estimator.parameters import PARAMETERS_FILE, with_defaults
from akdl.keras.operator import backend_of, trainer
from akdl.keras.task_configs import EVALUATE, TASKS, TRAIN
from akdl.tf_version import EstimatorMissing, require_estimator
from akdl.user_code.config_file import Config, ConfigError, read_config, set_value
from akdl.user_code.module import TrainingFailed, UserModuleError, load_module

# The task began and failed.
FAILED = 1
# Arguments, config or module are invalid, and nothing was started. argparse ends with the same
# code.
WRONG = 2
# The user pressed Ctrl+C; shells report 128 and the number of the signal.
INTERRUPTED = 130

# Lines are flushed at once, because output into a pipe is otherwise held back until a block is
# full.
say = functools.partial(print, flush=True)

_ABOUT_ESTIMATOR = (
    "Train an Estimator from model_fn, train_input_fn, eval_input_fn and serving_input_receiver_fn,"
    " evaluate it, and export it as a SavedModel. A second run with the same --model-dir resumes"
    " from the last checkpoint."
)
_KERAS: Mapping[str, Config] = {
    "config": {"metavar": "CONFIG", "help": "JSON file with the task config"},
    "--data-path": {"metavar": "DIR", "help": "the value of ${DATA_PATH}$ in the config"},
}
_ESTIMATOR: Mapping[str, Config] = {
    "--path": {
        "required": True,
        "help": "the argument `path` of the input functions: a file or folder of data",
    },
    "--params": {
        "metavar": "FILE",
        "help": (
            "JSON file with the argument `params` of the functions; by default `parameters.json`"
            " next to the module"
        ),
    },
    "--model-dir": {"required": True, "metavar": "DIR", "help": "folder of the checkpoints"},
    "--export-dir": {
        "metavar": "DIR",
        "help": "folder of exports; by default `export` in the model dir",
    },
}
_BOTH: Mapping[str, Config] = {
    "--module": {
        "required": True,
        "metavar": "FILE",
        "help": "Python file with the user's functions",
    },
    "--set": {
        "action": "append",
        "default": [],
        "metavar": "key=value",
        "help": (
            "set a value of the config or parameters, such as optimizer.args.learning_rate=0.1 or"
            " train_max_steps=500; for `akdl keras`, a key in capitals is a placeholder"
        ),
    },
}


def keras(arguments: list[str] | None = None) -> int:
    """Run `akdl keras train|evaluate|predict CONFIG --module user.py`."""
    # A ValueError is about the user's data or model, and its text says what to do.
    return _run(
        "akdl keras",
        "Train, evaluate or predict with awf_* callbacks.",
        TASKS,
        _KERAS,
        _keras,
        ValueError,
        arguments,
    )


def estimator(arguments: list[str] | None = None) -> int:
    """Run `akdl estimator train --module my_code.py --path data/`."""
    return _run(
        "akdl estimator",
        _ABOUT_ESTIMATOR,
        ["train"],
        _ESTIMATOR,
        _estimator,
        TrainingFailed,
        arguments,
    )


def _run(
    name: str,
    about: str,
    tasks: Sequence[str],
    options: Mapping[str, Config],
    run: Callable[[Any], None],
    failure: type[Exception],
    arguments: list[str] | None,
) -> int:
    """Run a command, and return its exit code.

    Errors of the type `failure`, and errors of configs and modules, are one line, because their
    text says what to do. The traceback of their cause, if they have one, leads into the user's
    code. Other errors are defects, and keep their own traceback.
    """
    parser = argparse.ArgumentParser(prog=name, description=about)
    parser.add_argument("task", choices=tasks)
    for option, settings_of_it in {**options, **_BOTH}.items():
        parser.add_argument(option, **settings_of_it)
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    # These errors mean that nothing was started, so they end with another code than a failed
    # training.
    wrong = (ConfigError, UserModuleError, EstimatorMissing)
    try:
        run(given)
    except KeyboardInterrupt:
        say(f"{given.task}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (*wrong, failure) as error:
        # The traceback of an error of Keras is left out: it has dozens of lines of Keras itself.
        if isinstance(error, (UserModuleError, TrainingFailed)) and error.__cause__ is not None:
            traceback.print_exception(
                type(error.__cause__), error.__cause__, error.__cause__.__traceback__
            )
        say(f"{given.task}: {error}", file=sys.stderr)
        return WRONG if isinstance(error, wrong) else FAILED
    return 0


def settings(given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the keys and values of all `--set key=value`."""
    for setting in given:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise ConfigError("given", [f"--set {setting}: expected key=value"])
        yield key, value


def _keras(given: Any) -> None:
    backend_of(given.task)
    config = read_config(given.config)
    placeholders = (
        {} if given.data_path is None else {"DATA_PATH": os.path.abspath(given.data_path)}
    )
    for key, value in settings(given.set):
        # A key in capitals is the name of a placeholder, such as DATA_PATH for ${DATA_PATH}$, and
        # not a key of the config.
        if re.fullmatch(r"[A-Z][A-Z0-9_]*", key):
            placeholders[key] = value
        else:
            set_value(config, key, value)
    module = load_module(given.module)
    # The modules of the tasks load TensorFlow, so each task imports its own after the config has
    # been read.
    if given.task == TRAIN:
        train, _ = trainer()
        result = train(config, module, placeholders, say)
        say(f"{len(result.history)} epochs, {result.steps} steps")
    elif given.task == EVALUATE:
        from akdl.keras.evaluate import as_table, evaluate

        say(as_table(evaluate(config, module, placeholders, lambda line: None)))
    else:
        from akdl.keras.predict import predict

        predict(config, module, placeholders, say)


def _estimator(given: Any) -> None:
    # TensorFlow logs the same progress in many more lines.
    logging.getLogger("tensorflow").setLevel(logging.WARNING)
    file = given.params or os.path.join(
        os.path.dirname(os.path.abspath(given.module)), PARAMETERS_FILE
    )
    params: dict[str, Any] = {}
    if given.params or os.path.isfile(file):
        params = read_config(file)
        if not given.params:
            say(f"parameters: {file}")
    for key, value in settings(given.set):
        set_value(params, key, value)
    # This reports mistakes before the user's module loads TensorFlow.
    with_defaults(params)
    require_estimator("akdl.estimator")
    module = load_module(given.module)
    from akdl.estimator.estimator_training import train

    # A path that does not exist here may be an address that the user's functions read, so it stays
    # unchanged.
    path = os.path.abspath(given.path) if os.path.exists(given.path) else given.path
    result = train(module, path, params, given.model_dir, given.export_dir, say)
    if result is not None:
        say(f"{result.global_step} steps")
