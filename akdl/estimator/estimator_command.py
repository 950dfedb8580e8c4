"""Training with four functions from the command line.

`akdl estimator train --module my_code.py --path data/`
"""

import argparse
import logging
import os
from typing import Any, Dict, List, Optional

from akdl.estimator.parameters import PARAMETERS_FILE, with_defaults
from akdl.tf_version import require_estimator
from akdl.user_code.command_line import TrainingFailed, run_command, say, settings
from akdl.user_code.config_file import read_config, set_value
from akdl.user_code.module import load_module


def main(arguments: Optional[List[str]] = None) -> int:
    return run_command(_parser(), arguments, _run, TrainingFailed)


def _run(options: Any) -> None:
    # TensorFlow logs the same progress in many more lines.
    logging.getLogger("tensorflow").setLevel(logging.WARNING)
    params = _params(options)
    # This reports mistakes before the user's module loads TensorFlow, which takes seconds.
    with_defaults(params)
    require_estimator("akdl.estimator")
    module = load_module(options.module)
    from akdl.estimator.estimator_training import train

    path = os.path.abspath(options.path) if os.path.exists(options.path) else options.path
    result = train(module, path, params, options.model_dir, options.export_dir, say)
    if result is not None:
        say(f"{result.global_step} steps")


def _params(options: argparse.Namespace) -> Dict[str, Any]:
    """Read the parameters: from the file, and then from `--set`, which wins."""
    default = os.path.join(os.path.dirname(os.path.abspath(options.module)), PARAMETERS_FILE)
    file = options.params or (default if os.path.isfile(default) else None)
    params = {} if file is None else read_config(file)
    if options.params is None and file is not None:
        say(f"parameters: {file}")
    for key, value in settings(options.set):
        set_value(params, key, value)
    return params


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="akdl estimator",
        description="Train an Estimator from model_fn, train_input_fn, eval_input_fn and serving_input_receiver_fn, evaluate "
        "it, and export it as a SavedModel. A second run with the same --model-dir resumes from the last checkpoint.",
    )
    parser.add_argument("task", choices=["train"])
    parser.add_argument("--module", required=True, metavar="FILE", help="Python file with the four functions")
    parser.add_argument("--path", required=True, help="the argument `path` of the input functions: a file or folder of data")
    parser.add_argument(
        "--params",
        metavar="FILE",
        help="JSON file with the argument `params` of the functions; by default `parameters.json` next to the module",
    )
    parser.add_argument("--model-dir", required=True, metavar="DIR", help="folder of the checkpoints")
    parser.add_argument("--export-dir", metavar="DIR", help="folder of exports; by default `export` in the model dir")
    parser.add_argument(
        "--set", action="append", default=[], metavar="key=value", help="set a parameter, such as train_max_steps=500"
    )
    return parser
