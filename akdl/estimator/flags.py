"""The flags of a program that trains a two-tower model with an Estimator.

    FLAGS = flags_of_command("Trains a model.")  # on the command line
    FLAGS = flags_from({"max_train_steps": 200}) # in an operator, from the user parameters

They are defined by a call and not by an import, because flags are global in a program; `define_flags` adds them to those of
a program with flags of its own.
"""

import sys
from typing import Any, List, Mapping, Optional, Sequence, Tuple

import tensorflow as tf

from akdl.user_code.command_line import WRONG, say

flags = tf.compat.v1.flags

# kind, name, default, help
_FLAGS: List[Tuple[str, str, Any, str]] = [
    ("string", "model_name", "testModelName", "name of the model, in the names of what is exported"),
    ("string", "model_dir", None, "folder of checkpoints and exports"),
    ("string", "keywords_file", None, "file with the list of keywords"),
    ("string", "keywords_weights_file", None, "file with a vector for each keyword"),
    ("string", "user_hidden_units", "512,256,128", "sizes of the user's layers"),
    ("string", "item_hidden_units", "512,256,128", "sizes of the item's layers"),
    ("float", "user_dropout", 0.7, "part of the user's values that is dropped in training"),
    ("float", "item_dropout", 0.7, "part of the item's values that is dropped in training"),
    ("boolean", "user_batch_norm", True, "batch normalization for the user"),
    ("boolean", "item_batch_norm", True, "batch normalization for the item"),
    ("float", "learning_rate", 0.01, "learning rate"),
    ("string", "train_files", None, "files to train on, separated by commas"),
    ("integer", "train_batch_size", 100, "rows in a batch of training"),
    ("integer", "train_num_epochs", None, "passes over the files; without it they are repeated indefinitely"),
    ("integer", "train_shuffle_buffer_size", 10000, "rows among which training shuffles"),
    ("integer", "train_reader_num_threads", 1, "files read at the same time for training"),
    ("integer", "train_parser_num_threads", 1, "batches parsed at the same time for training"),
    (
        "integer",
        "max_train_steps",
        1000,
        "the global step that ends training, if the files don't end before; 0 for none",
    ),
    ("string", "eval_files", None, "files to evaluate on, separated by commas"),
    ("integer", "eval_batch_size", 100, "rows in a batch of evaluation"),
    ("integer", "eval_reader_num_threads", 1, "files read at the same time for evaluation"),
    ("integer", "eval_parser_num_threads", 1, "batches parsed at the same time for evaluation"),
    ("integer", "max_eval_steps", None, "batches of an evaluation; without it all"),
    ("integer", "start_delay_secs", 120, "the first evaluation starts start_delay_secs + throttle_secs after training"),
    ("integer", "throttle_secs", 600, "seconds from one evaluation to the next; without a new checkpoint there is none"),
    ("string", "predict_files", None, "files to predict, separated by commas"),
    ("integer", "predict_batch_size", 2, "rows in a batch of prediction"),
    ("integer", "predict_reader_num_threads", 1, "files read at the same time for prediction"),
    ("integer", "predict_parser_num_threads", 1, "batches parsed at the same time for prediction"),
]


def define_flags(flag_values: Optional[Any] = None) -> Any:
    """Define all flags and return where their values are found.

    Args:
        flag_values: An `absl.flags.FlagValues`; by default that of the program, which `tf.compat.v1.app.run` parses.
    """
    found = flags.FLAGS if flag_values is None else flag_values
    for kind, name, default, text in _FLAGS:
        getattr(flags, f"DEFINE_{kind}")(name, default, text, flag_values=found)
    return found


def flags_of_command(description: str, arguments: Optional[Sequence[str]] = None) -> Any:
    """Return the flags of a command line.

    `--help` lists all flags and ends the program with 0; a wrong flag ends it with 2.

    Args:
        description: What the program does, for `--help`.
        arguments: By default those of the program.
    """
    found = define_flags(flags.FlagValues())
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if {"--help", "-help", "-h", "--helpfull"} & set(arguments):
        lines = (f"  --{name}: {text} ({kind}, default: {default})" for kind, name, default, text in _FLAGS)
        say("\n".join([description, "", "flags:", *lines]))
        sys.exit(0)
    try:
        rest = found(["", *arguments])[1:]
        wrong = f"expected flags only, got {' '.join(rest)}" if rest else None
    except flags.Error as error:
        wrong = str(error)
    if wrong is not None:
        say(wrong, sys.stderr)
        sys.exit(WRONG)
    return found


def flags_from(values: Mapping[str, Any]) -> Any:
    """Return flags with these values, and their defaults otherwise, without a command line.

    Raises:
        ValueError: A name is unknown, or a value does not suit its flag.
    """
    found = define_flags(flags.FlagValues())
    found.mark_as_parsed()
    known = {name for _, name, _, _ in _FLAGS}
    unknown = sorted(set(values) - known)
    if unknown:
        raise ValueError(f"there is no flag {', '.join(unknown)}; the flags are {', '.join(sorted(known))}")
    for name, value in values.items():
        if value is not None:
            try:
                found[name].parse(str(value))
            except flags.IllegalFlagValueError as error:
                raise ValueError(str(error)) from error
    return found


def int_list(text: str) -> List[int]:
    """Return the numbers in a string such as "512,256,128".

    Raises:
        ValueError: The string holds anything else.
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"expected whole numbers separated by commas, such as 512,256,128, got {text!r}") from None


def file_list(name: str, text: Optional[str]) -> List[str]:
    """Return the paths in a flag's value.

    Raises:
        ValueError: There is none.
    """
    found = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not found:
        raise ValueError(f"the flag {name} should list files separated by commas, got {text!r}")
    return found
