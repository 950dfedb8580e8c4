"""A program of a benchmark in another Python: it gets a line, works, and prints a number."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

ANSWER = "answer "


class OtherPython:
    """A running program.

    Args:
        command: The interpreter, the program and its arguments.
        variables: Of its environment, in addition to the current ones.
    """

    def __init__(self, *command: str, **variables: str) -> None:
        root = str(pathlib.Path(__file__).parents[1])
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **variables, "PYTHONPATH": root},
        )

    def ask(self, line: object) -> float:
        """Send a line, and return the number of the answer; exit where the program has ended."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(line, file=self._process.stdin, flush=True)
        # Frameworks may print lines of their own.
        found = next((line for line in self._process.stdout if line.startswith(ANSWER)), None)
        if found is None:
            sys.exit(f"{self._process.args} ended with {self._process.wait()}")
        return float(found.removeprefix(ANSWER))

    def close(self) -> None:
        """End the program with its input."""
        self._process.communicate()


def answer(number: float) -> None:
    """Print a number as the program."""
    print(f"{ANSWER}{number}", flush=True)
