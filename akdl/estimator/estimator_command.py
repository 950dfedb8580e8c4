"""Training with four functions from the command line.

`akdl estimator train --module my_code.py --path data/`
"""

import argparse
import logging
import os
import sys
import traceback
from typing import Any, Dict, List, Optional

from akdl.estimator.parameters import PARAMETERS_FILE, with_defaults
from akdl.tf_version import EstimatorMissing, require_estimator
from akdl.user_code.command_line import FAILED, INTERRUPTED, WRONG, say, settings
from akdl.user_code.config_file import ConfigError, read_config, set_value
from akdl.user_code.module import UserModuleError, load_module


def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    # TensorFlow logs the same progress in many more lines.
    logging.getLogger("tensorflow").setLevel(logging.WARNING)
    try:
        params = _params(options)
        # This reports mistakes before the user's module loads TensorFlow, which takes seconds.
        with_defaults(params)
        require_estimator("akdl.estimator")
        module = load_module(options.module)
    except SyntaxError as error:
        return _say_error(f"{error.filename}, line {error.lineno}: {error.msg}", WRONG)
    except (ConfigError, UserModuleError, FileNotFoundError, EstimatorMissing) as error:
        return _say_error(str(error), WRONG)
    from akdl.engine.estimator_group import TrainingFailed
    from akdl.estimator.estimator_training import train

    path = os.path.abspath(options.path) if os.path.exists(options.path) else options.path
    try:
        result = train(module, path, params, options.model_dir, options.export_dir, say)
    except (ConfigError, UserModuleError) as error:
        return _say_error(str(error), WRONG, error.__cause__)
    except TrainingFailed as error:
        return _say_error(str(error), FAILED, error.__cause__)
    except KeyboardInterrupt:
        return _say_error("interrupted", INTERRUPTED)
    if result is not None:
        say(f"{result.global_step} steps")
    return 0


def _say_error(message: str, code: int, cause: Optional[BaseException] = None) -> int:
    """Print an error with the traceback of its cause, which is in the user's code."""
    if cause is not None:
        traceback.print_exception(type(cause), cause, cause.__traceback__)
    say(f"train: {message}", file=sys.stderr)
    return code


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
