"""The flags of `two_tower.py`.

    FLAGS = flags_of_command("Trains a model.")  # on the command line
    FLAGS = flags_from({"max_train_steps": 200})  # in an operator, from the user parameters

A call defines them and not an import, because flags are global in a program.
"""

import sys

import tensorflow as tf

flags = tf.compat.v1.flags

# kind, name, default, help
ALL = [
    ("string", "model_name", "testModelName", "name of the model, in the names of its exports"),
    ("string", "model_dir", None, "folder of checkpoints and exports"),
    ("string", "keywords_file", None, "file with the list of keywords"),
    ("string", "keywords_weights_file", None, "file with a vector for each keyword"),
    ("string", "user_hidden_units", "512,256,128", "sizes of the user's layers"),
    ("string", "item_hidden_units", "512,256,128", "sizes of the item's layers"),
    ("float", "user_dropout", 0.7, "fraction of the user's values that is dropped in training"),
    ("float", "item_dropout", 0.7, "fraction of the item's values that is dropped in training"),
    ("boolean", "user_batch_norm", True, "batch normalization for the user"),
    ("boolean", "item_batch_norm", True, "batch normalization for the item"),
    ("float", "learning_rate", 0.01, "learning rate"),
    ("string", "train_files", None, "files to train on, separated by commas"),
    ("integer", "train_batch_size", 100, "rows in a batch of training"),
    (
        "integer",
        "train_num_epochs",
        None,
        "passes over the files; by default they are repeated indefinitely",
    ),
    ("integer", "train_shuffle_buffer_size", 10000, "rows among which training shuffles"),
    ("integer", "train_reader_num_threads", 1, "files read at the same time for training"),
    ("integer", "train_parser_num_threads", 1, "batches parsed at the same time for training"),
    (
        "integer",
        "max_train_steps",
        1000,
        "the global step that ends training, unless the files end before; 0 for no limit",
    ),
    ("string", "eval_files", None, "files to evaluate on, separated by commas"),
    ("integer", "eval_batch_size", 100, "rows in a batch of evaluation"),
    ("integer", "eval_reader_num_threads", 1, "files read at the same time for evaluation"),
    ("integer", "eval_parser_num_threads", 1, "batches parsed at the same time for evaluation"),
    ("integer", "max_eval_steps", None, "batches of an evaluation; by default all"),
    (
        "integer",
        "start_delay_secs",
        120,
        "the first evaluation starts start_delay_secs + throttle_secs after training",
    ),
    (
        "integer",
        "throttle_secs",
        600,
        "seconds between two evaluations, which also need a new checkpoint",
    ),
    ("string", "predict_files", None, "files to predict, separated by commas"),
    ("integer", "predict_batch_size", 2, "rows in a batch of prediction"),
    ("integer", "predict_reader_num_threads", 1, "files read at the same time for prediction"),
    ("integer", "predict_parser_num_threads", 1, "batches parsed at the same time for prediction"),
]


def flags_of_command(description, arguments=None):
    """Return the flags of a command line; `--help` lists all flags and ends the program."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if {"--help", "-help", "-h", "--helpfull"} & set(arguments):
        lines = (
            f"  --{name}: {text} ({kind}, default: {default})" for kind, name, default, text in ALL
        )
        print("\n".join([description, "", "flags:", *lines]))
        sys.exit(0)
    found = define()
    try:
        rest = found(["", *arguments])[1:]
        wrong = f"expected flags only, got {' '.join(rest)}" if rest else None
    except flags.Error as error:
        wrong = str(error)
    if wrong is not None:
        print(wrong, file=sys.stderr)
        sys.exit(2)
    return found


def flags_from(values):
    """Return flags with these values, and with their defaults otherwise."""
    found = define()
    found.mark_as_parsed()
    unknown = sorted(set(values) - set(found))
    if unknown:
        raise ValueError(
            f"unknown flag {', '.join(unknown)}; the flags are {', '.join(sorted(found))}"
        )
    for name, value in values.items():
        if value is not None:
            found[name].parse(str(value))
    return found


def define():
    found = flags.FlagValues()
    for kind, name, default, text in ALL:
        getattr(flags, f"DEFINE_{kind}")(name, default, text, flag_values=found)
    return found


def file_list(name, text):
    """Return the paths in a flag's value."""
    found = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not found:
        raise ValueError(f"the flag {name} should list files separated by commas, got {text!r}")
    return found
