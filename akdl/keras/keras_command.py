"""`akdl keras train|evaluate|predict CONFIG --module user.py`: the runner from the command line."""

import argparse
import logging
import os
import re
import sys
from typing import Any, Dict, List, Optional

from akdl.keras.task_configs import EVALUATE, TASKS, TRAIN
from akdl.user_code.command_line import FAILED, INTERRUPTED, WRONG, say, settings
from akdl.user_code.config_file import ConfigError, read_config, set_value
from akdl.user_code.module import UserModuleError, load_module


def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    try:
        config = read_config(options.config)
        placeholders = _placeholders(options, config)
        module = load_module(options.module)
    except (ConfigError, UserModuleError, FileNotFoundError) as error:
        say(f"{options.task}: {error}", file=sys.stderr)
        return WRONG
    try:
        _run(options.task, config, module, placeholders)
    except (ConfigError, UserModuleError) as error:
        say(f"{options.task}: {error}", file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        say(f"{options.task}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except ValueError as error:
        # A ValueError is about the user's data or model, and its text says what to do. The
        # traceback is for a debug log.
        logging.getLogger(__name__).debug("", exc_info=True)
        say(f"{options.task}: {error}", file=sys.stderr)
        return FAILED
    return 0


def _run(task: str, config: Dict[str, Any], module: object, placeholders: Dict[str, str]) -> None:
    # TensorFlow is loaded here, which takes seconds, so that a wrong argument is an error at once.
    if task == TRAIN:
        from akdl.keras.keras_training import train

        result = train(config, module, placeholders, say)
        say(f"{len(result.history)} epochs, {result.steps} steps")
    elif task == EVALUATE:
        from akdl.keras.evaluate import as_table, evaluate

        rows = evaluate(config, module, placeholders, lambda line: None)
        say(as_table(rows))
    else:
        from akdl.keras.predict import predict

        predict(config, module, placeholders, say)


def _placeholders(options: argparse.Namespace, config: Dict[str, Any]) -> Dict[str, str]:
    """Return the values of placeholders; values of the config are set in it."""
    found = {} if options.data_path is None else {"DATA_PATH": os.path.abspath(options.data_path)}
    for key, value in settings(options.set):
        if re.fullmatch(r"[A-Z][A-Z0-9_]*", key):
            found[key] = value
        else:
            set_value(config, key, value)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="akdl keras", description="Train, evaluate or predict with awf_* callbacks.")
    parser.add_argument("task", choices=TASKS)
    parser.add_argument("config", metavar="CONFIG", help="JSON file with the task config")
    parser.add_argument("--module", required=True, help="Python file with the callbacks")
    parser.add_argument("--data-path", metavar="DIR", help="the value of ${DATA_PATH}$ in the config")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="key=value",
        help="set a value of the config, such as optimizer.args.learning_rate=0.1, or, in capitals, a placeholder",
    )
    return parser
