"""Common parts of the runners' commands: exit codes, output without delay, and settings."""

import functools
from typing import Iterator, Sequence, Tuple

from akdl.user_code.config_file import ConfigError

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


def settings(given: Sequence[str]) -> Iterator[Tuple[str, str]]:
    """Yield the keys and values of all `--set key=value`."""
    for setting in given:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise ConfigError("given", [f"--set {setting}: expected key=value"])
        yield key, value
