"""Numbers of a training, in text that a page's blocks have printed and logged, which no reader
would believe.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

_SOURCE = re.compile(r"^\[\w+, \w+ \d+\] ")  # before each line of a script
_METRIC = re.compile(
    r"\b(\w*(?:loss|accuracy|auc|precision|recall))(?:\(\d+\))?\s*[:=]?\s+([-+]?[\d.]+(?:e[-+]\d+)?|nan|-?inf)\b"
)
_EPOCH = re.compile(r"\bepoch (\d+)/(\d+)", re.IGNORECASE)
_NOTHING = re.compile(r"(?<![\d,.])0 rows(?! in,)|\b\d+/0\b|\bof 0\b")
_GOOD_LOSS = 0.6  # a coin's cross-entropy is 0.69
_GOOD_SCORE = 0.7


def implausible(text: str) -> list[str]:
    """Return the lines with a number that a model which has learned does not show; the last ones
    count, and all that are nan.
    """
    return [
        f"{problem}: {line}" for source in _by_source(text) for problem, line in _problems(source)
    ]


def of_scripts(text: str) -> list[str]:
    """Return the lines that scripts have printed, as `debug_mode` shows them."""
    return [line for line in text.splitlines() if _SOURCE.match(line)]


def _by_source(text: str) -> Iterator[list[str]]:
    lines = [line for line in text.replace("\r", "\n").splitlines() if line.strip()]

    def source(line: str) -> str:
        found = _SOURCE.match(line)
        return found[0] if found else ""

    for _, group in itertools.groupby(sorted(lines, key=source), source):
        yield list(group)


def _problems(lines: list[str]) -> Iterator[tuple[str, str]]:
    last: dict[str, tuple[float, str]] = {}
    epochs: tuple[int, int] | None = None
    for line in lines:
        if _NOTHING.search(line):
            yield "nothing was done", line
        for name, value in _METRIC.findall(line):
            last[name] = float(value), line
            if value.strip("-") in ("nan", "inf"):
                yield f"{name} is no number", line
        for number, count in _EPOCH.findall(line):
            if epochs is not None and int(number) > 1 and epochs[1] != int(count):
                yield f"there were {epochs[1]} epochs", line
            epochs = int(number), int(count)
    for name, (value, line) in last.items():
        if value > _GOOD_LOSS if name.endswith("loss") else value < _GOOD_SCORE:
            yield f"{name} is that of a model that has not learned", line
