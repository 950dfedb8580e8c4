"""`akdl COMMAND ...`: the one command for people; `akdl COMMAND --help` describes each.

A module is imported once its command is known, because most environments have the packages of some
commands only: `akdl keras` runs where neither Flink nor the operators can be imported.
"""

import argparse
import importlib
import sys
from typing import Optional, Sequence

# Command to its function, the extras of akdl that it needs, and its line in the help. Names of
# modules are texts, because `akdl` imports nothing of the Flink side. Documents and messages are
# compared with this table.
COMMANDS = {
    "doctor": ("operators.tools.doctor:main", "flink", "check whether jobs can run here"),
    "env": (
        "operators.prepare.made_env:main",
        "flink",
        "make, list and remove Python environments of scripts",
    ),
    "estimator": (
        "akdl.runner_commands:estimator",
        "tf",
        "train an Estimator from four functions, without Flink",
    ),
    "jars": ("operators.flink.jars:main", "flink", "get jars of connectors and formats"),
    "keras": (
        "akdl.runner_commands:keras",
        "tf",
        "train, evaluate or predict with awf_* callbacks, without Flink",
    ),
    "replay": (
        "akdl.replay:main",
        "tf",
        "run a failed script again, on the rows that it read last",
    ),
    "report": ("operators.tools.report:main", "flink", "make one HTML page of the record of a run"),
    "serve": (
        "operators.serve.rest_server:main",
        "tf and serve",
        "serve a model as TensorFlow Serving's REST API does",
    ),
    "stacks": (
        "operators.tools.running_scripts:stacks",
        "flink",
        "show where the processes of running scripts stand",
    ),
    "top": (
        "operators.tools.running_scripts:top",
        "flink",
        "show what the processes of running scripts do",
    ),
}


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run a command and return its exit status; a missing package is a sentence about extras."""
    first, *others = arguments or sys.argv[1:] or ["--help"]
    parser = argparse.ArgumentParser(
        prog="akdl", description="Commands of akdl: TensorFlow scripts as Flink operators."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, (_, _, text) in COMMANDS.items():
        # `akdl COMMAND --help` has to reach the command's own parser, so the one here takes no such
        # option.
        commands.add_parser(name, help=text, add_help=False)
    # Only the first argument is parsed: argparse would refuse the options of the command, which its
    # own module declares once it is imported.
    command = parser.parse_args([first]).command
    function, extras, _ = COMMANDS[command]
    module, _, name = function.partition(":")
    try:
        run = getattr(importlib.import_module(module), name)
    except ImportError as error:
        parser.exit(
            1,
            f"akdl {command} needs the package {error.name}: install the extras {extras} of akdl,"
            " as you installed akdl\n",
        )
    return int(run(others))


if __name__ == "__main__":
    sys.exit(main())
