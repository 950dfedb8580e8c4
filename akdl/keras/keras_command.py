"""`akdl keras train|evaluate|predict CONFIG --module user.py`: the runner from the command line."""

import argparse
import os
import re
from typing import Any, Dict, List, Optional

from akdl.keras.task_configs import EVALUATE, TASKS, TRAIN
from akdl.user_code.command_line import run_command, say, settings
from akdl.user_code.config_file import read_config, set_value
from akdl.user_code.module import load_module


def main(arguments: Optional[List[str]] = None) -> int:
    # A ValueError is about the user's data or model, and its text says what to do.
    return run_command(_parser(), arguments, _run, ValueError)


def _run(options: Any) -> None:
    config = read_config(options.config)
    placeholders = _placeholders(options, config)
    module = load_module(options.module)
    # TensorFlow is loaded here, which takes seconds, so that a wrong argument is an error at once.
    if options.task == TRAIN:
        from akdl.keras.keras_training import train

        result = train(config, module, placeholders, say)
        say(f"{len(result.history)} epochs, {result.steps} steps")
    elif options.task == EVALUATE:
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
