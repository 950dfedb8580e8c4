"""The runners' commands, `akdl keras` and `akdl estimator`: exit codes, output without delay, and settings.

Both end alike, because people and scripts read their exit codes and last lines. Nothing here loads
TensorFlow, which takes seconds, so that a wrong argument is an error at once.
"""

import argparse
import functools
import logging
import sys
import traceback
from typing import Any, Callable, Iterator, List, Optional, Sequence, Tuple, Type

from akdl.tf_version import EstimatorMissing
from akdl.user_code.config_file import ConfigError
from akdl.user_code.module import UserModuleError

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


class TrainingFailed(RuntimeError):
    """A training ended without a usable model."""


def run_command(
    parser: argparse.ArgumentParser, arguments: Optional[List[str]], run: Callable[[Any], None], failure: Type[Exception]
) -> int:
    """Run a command with the arguments of `parser`, and return its exit code.

    Errors of the type `failure`, and errors of configs and modules, are one line, because their
    text says what to do. The traceback of their cause, if they have one, leads into the user's
    code. Other errors are defects, and keep their own traceback.
    """
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    wrong = (ConfigError, UserModuleError, EstimatorMissing)
    try:
        run(options)
    except KeyboardInterrupt:
        say(f"{options.task}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except (*wrong, failure) as error:
        # The traceback of an error of Keras is left out: it has dozens of lines of Keras itself.
        if isinstance(error, (UserModuleError, TrainingFailed)) and error.__cause__ is not None:
            traceback.print_exception(type(error.__cause__), error.__cause__, error.__cause__.__traceback__)
        say(f"{options.task}: {error}", file=sys.stderr)
        return WRONG if isinstance(error, wrong) else FAILED
    return 0


def settings(given: Sequence[str]) -> Iterator[Tuple[str, str]]:
    """Yield the keys and values of all `--set key=value`."""
    for setting in given:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise ConfigError("given", [f"--set {setting}: expected key=value"])
        yield key, value
