"""Lines of a process's output as a terminal finally shows them. Pure; the time is an argument.

A progress bar of Keras rewrites its line hundreds of times with carriage returns or backspaces.
A log gets its last form, and one in between every five seconds, to show that the process works.
"""

from __future__ import annotations

import codecs
import re

# A script may print endlessly without an end of line, and Beam keeps up to 10,000 lines that Flink
# has not taken, so the length of a line is a bound of memory.
LINE_CHARACTERS = 1 << 13
# This is the time between two shown versions of a line that is overwritten.
EVERY_S = 5.0

_MOVES = re.compile(r"(\n|\r\n|\r|\x08+)")


class Lines:
    """Decoder of one output: `feed` takes bytes as they are read, `end` gives the last line.

    Args:
        now: Monotonic seconds, as for `feed`.
    """

    def __init__(self, now: float) -> None:
        # A read may end in the middle of a character, so the decoder has to keep its bytes.
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._line = ""
        # The next character is written at this place of the line.
        self._place = 0
        # This is true once the line has been overwritten since it was last shown.
        self._is_overwritten = False
        self._shown_at = now

    def feed(self, printed: bytes, now: float) -> list[str]:
        """Return the complete lines of the output so far; parts of lines longer than
        `LINE_CHARACTERS`.
        """
        text = self._decode(printed)
        # Most scripts print no progress bars, and their output is split in one step.
        if not self._is_overwritten and "\r" not in text and "\x08" not in text:
            *lines, rest = (self._line + text).split("\n")
            self._shown_at = now if lines else self._shown_at
            self._line, self._place = rest, len(rest)
        else:
            lines = []
            for part in _MOVES.split(text):
                self._take(part, lines, now)
        return [cut for line in lines for cut in _cut(line)] + self._cut_off()

    def end(self) -> list[str]:
        """Return the last line if it has no end, with a mark for an incomplete character."""
        rest, self._line, self._place = self._line + self._decode(b"", True), "", 0
        return list(_cut(rest)) if rest else []

    def _take(self, part: str, lines: list[str], now: float) -> None:
        if not part:
            return
        if part in ("\n", "\r\n"):
            # A shorter version of a progress bar covers the end of a longer one with spaces.
            lines.append(self._line.rstrip(" ") if self._is_overwritten else self._line)
            self._line, self._place, self._is_overwritten, self._shown_at = "", 0, False, now
        elif part[0] in "\r\x08":
            if self._place and now - self._shown_at >= EVERY_S:
                self._shown_at = now
                lines.append(self._line.rstrip(" "))
            self._place = 0 if part == "\r" else max(self._place - len(part), 0)
            self._is_overwritten = True
        else:
            end = self._place + len(part)
            self._line = self._line[: self._place] + part + self._line[end:]
            self._place = end

    def _cut_off(self) -> list[str]:
        *cut, self._line = _cut(self._line)
        self._place = max(self._place - sum(map(len, cut)), 0)
        return cut


def _cut(line: str) -> list[str]:
    return [
        line[start : start + LINE_CHARACTERS] for start in range(0, len(line), LINE_CHARACTERS)
    ] or [""]
