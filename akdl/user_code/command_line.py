"""Common parts of the runners' commands: exit codes, and output without delay."""

import functools

FAILED = 1  # while running
WRONG = 2  # invalid arguments, config or module; nothing was started
INTERRUPTED = 130  # from the keyboard

say = functools.partial(print, flush=True)
