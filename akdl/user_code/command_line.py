"""What the runners' commands have in common: exit codes, and lines that are seen at once."""

import sys
from typing import Any

FAILED = 1  # on the way
WRONG = 2  # arguments, config or module; nothing was started
INTERRUPTED = 130  # from the keyboard


def say(line: str, stream: Any = None) -> None:
    """Write a line; to standard output by default."""
    stream = stream or sys.stdout
    stream.write(f"{line}\n")
    stream.flush()
