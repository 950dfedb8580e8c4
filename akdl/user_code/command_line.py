"""Common parts of the runners' commands: exit codes, output without delay, and settings."""

import functools
from typing import Iterator, Sequence, Tuple

from akdl.user_code.config_file import ConfigError

FAILED = 1  # while running
WRONG = 2  # invalid arguments, config or module; nothing was started
INTERRUPTED = 130  # from the keyboard

say = functools.partial(print, flush=True)


def settings(given: Sequence[str]) -> Iterator[Tuple[str, str]]:
    """Yield the keys and values of all `--set key=value`."""
    for setting in given:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise ConfigError("given", [f"--set {setting}: expected key=value"])
        yield key, value
