"""Common parts of the runners' commands: exit codes, and output without delay."""

import sys
from typing import Any

FAILED = 1  # while running
WRONG = 2  # invalid arguments, config or module; nothing was started
INTERRUPTED = 130  # from the keyboard


def say(line: str, stream: Any = None) -> None:
    stream = stream or sys.stdout
    stream.write(f"{line}\n")
    stream.flush()
